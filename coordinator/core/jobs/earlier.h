/* earlier.h: whether a job can take one of its earlier plans again. */
#ifndef COORDINATOR_CORE_JOBS_EARLIER_H
#define COORDINATOR_CORE_JOBS_EARLIER_H

#include "coordinator/core/core.h"

struct job_slot;

/* Answer with a problem if the running job cannot take the stage boundaries and devices of the
 * plan. Return whether it did. */
bool earlier_refuse(struct core *core, const struct job_slot *job, const struct plan *plan);

#endif
