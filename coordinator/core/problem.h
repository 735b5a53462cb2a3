/* problem.h: the partition problem of a placement, and its solution. */
#ifndef COORDINATOR_CORE_PROBLEM_H
#define COORDINATOR_CORE_PROBLEM_H

#include "coordinator/core/state.h"

/* Cut the model over planning->device[]; end NULL: the best cuts. */
NODISCARD int problem_solve(struct core *core, const struct job_slot *job, const size_t *end,
                            struct err *err);
/* What the memory of the planned stage goes to, but for replicas. */
struct plan_memory problem_memory(const struct planning *planning, size_t device);

#endif
