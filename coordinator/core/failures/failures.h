/* failures.h: handles the noted failure and the expired timers of a job. */
#ifndef COORDINATOR_CORE_FAILURES_FAILURES_H
#define COORDINATOR_CORE_FAILURES_FAILURES_H

#include "coordinator/core/core.h"

struct job_slot;

/* Handle the noted failure, at the end of the step. */
void failures_settle(struct core *core, struct job_slot *job);
/* Handle the expired timers. */
void failures_tick(struct core *core, struct job_slot *job);

#endif
