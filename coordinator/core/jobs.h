/* jobs.h: submission and verbs of jobs. Handlers of their events. */
#ifndef COORDINATOR_CORE_JOBS_H
#define COORDINATOR_CORE_JOBS_H

#include "coordinator/core/core.h"

struct job_slot;

void jobs_on_submit(struct core *core, const struct event *event);
void jobs_on_verb(struct core *core, const struct event *event);
/* Initialise a slot after its job (id, spec, data) was written. */
void jobs_init(struct core *core, struct job_slot *job, const struct model *model);

#endif
