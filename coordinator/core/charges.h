/* charges.h: charges failures to devices first and to the job last. */
#ifndef COORDINATOR_CORE_CHARGES_H
#define COORDINATOR_CORE_CHARGES_H

#include "coordinator/core/core.h"
#include "coordinator/core/failure.h"

struct job_slot;

#define FAILURES_MAX 3 /* devices that fail in the same way before the job is to blame */

/* Devices that failed in the same way, one after the other, without progress in between: then the
 * job is to blame. */
struct charge {
    char code[REASON_SIZE];
    struct device_id device[FAILURES_MAX];
    size_t count;
};

/* The version that devices failed to load, generation after generation. */
struct stuck {
    int64_t version;
    int64_t since_ms; /* when the first of these generations was planned */
    int count;        /* failures */
};

/* After it ran out of memory a device is given less in this job. */
struct memory_cap {
    struct device_id device;
    int64_t bytes;
};

struct charges {
    int64_t furthest_step; /* of failed and stopped generations: steps below it are no progress */
    struct charge same_way;
    struct stuck stuck;
    int faults; /* failures without progress that no single device is charged with */
    struct memory_cap cap[STAGES_MAX];
    size_t cap_count;
};

/* The plan's devices could not load the version that it starts from. */
void charges_start_failed(struct job_slot *job);
/* They could. */
void charges_start_loaded(struct job_slot *job);
/* A version was reached. What was below the furthest that generations got to was done before, and
 * is no progress. */
void charges_progress(struct job_slot *job, int64_t step);
/* Nothing is held against the job or its devices any more. */
void charges_forget(struct job_slot *job);
/* The same, and what was put off is tried now. */
void charges_retry(struct core *core, struct job_slot *job);
/* Charge a failure to devices or to the job. Returns whether the job is to blame. */
bool charges_count(struct core *core, struct job_slot *job, const struct failure *failure);

#endif
