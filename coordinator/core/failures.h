/* failures.h: what follows from a failure, and what is due by the clock. */
#ifndef COORDINATOR_CORE_FAILURES_H
#define COORDINATOR_CORE_FAILURES_H

#include "coordinator/core/core.h"

struct job_slot;

/* At the end of the step. */
void failures_settle(struct core *core, struct job_slot *job);
/* What is due by the clock. */
void failures_tick(struct core *core, struct job_slot *job);

#endif
