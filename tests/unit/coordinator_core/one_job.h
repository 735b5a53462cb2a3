/* one_job.h: a core with one live job and no devices, for modules that decide about the fields of a
 * job: their functions are called directly, and their actions counted. One thread. */
#ifndef TESTS_UNIT_COORDINATOR_CORE_ONE_JOB_H
#define TESTS_UNIT_COORDINATOR_CORE_ONE_JOB_H

#include "coordinator/core/state/state.h"
#include "schema/job.h"

struct one_job {
    struct core *core;
    struct job_slot *job;
    struct actions actions;
    struct event event;
};

/* An epoch has 10 steps; there are `epochs`. `spec` adds its stop and checkpoint. For one_job_free.
 */
struct one_job *one_job_new(int64_t epochs, const struct job_spec *spec);
void one_job_free(struct one_job *one);
/* How many actions of the type there were. */
size_t one_job_count(const struct one_job *one, enum action_type type);

#endif
