/* problem.h: states the placement of a job on chosen devices as a partition problem, and solves it.
 * Any thread. */
#ifndef COORDINATOR_CORE_PROBLEM_H
#define COORDINATOR_CORE_PROBLEM_H

#include <stddef.h>

#include "base/err.h"
#include "schema/plan.h"

struct planning;

/* Split the model across planning->chosen[] at the boundaries `end`; NULL: at the best ones. The
 * answer is planning->plan. Errors as partition_solve. */
NODISCARD int problem_solve(struct planning *planning, const size_t *end, struct err *err);
/* Return the memory of the planned stage by use, without replicas. */
struct plan_memory problem_memory(const struct planning *planning, size_t stage);

#endif
