/* problem.h: states the placement of a pipeline on candidates as a partition problem, and solves
 * it. Any thread. */
#ifndef COORDINATOR_CORE_PLACEMENT_PROBLEM_H
#define COORDINATOR_CORE_PLACEMENT_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coordinator/core/state/solution.h"
#include "coordinator/plan/partition.h"
#include "schema/plan.h"

struct planning;

/* scratch_new and scratch_free of the strategy `pipeline`. */
NODISCARD int problem_scratch_new(void **out, struct err *err);
void problem_scratch_free(void *scratch);
/* Choose among planning->pool and split the model across them. The answer is
 * planning->solution. Errors as partition_solve. */
NODISCARD int problem_solve(struct planning *planning, const struct problem_request *request,
                            struct err *err);
/* Write to planning->left_out what the unused devices of the pool would change. To be called after
 * problem_solve. */
void problem_left_out(struct planning *planning);
/* Return the solution in the form of the planner of pipelines. */
const struct partition_plan *problem_plan(const struct planning *planning);
/* Return the link after a stage of the solution; not after the last one. */
struct plan_link problem_link(const struct planning *planning, size_t stage);
/* Return the busiest stage or link of the solution. */
struct plan_bottleneck problem_bottleneck(const struct planning *planning);
/* Set the step time and the shares of the solution to the expected ones, without margins. The
 * search is over: planning->pool is overwritten. */
void problem_expect(struct planning *planning);
/* Let the plan and the memory of stages be those of the solution, after another search. */
void problem_continue(struct planning *planning);
/* Return the memory of the planned stage by use, without replicas. */
struct plan_memory problem_memory(const struct planning *planning, size_t stage);
/* Mark the devices whose memory holds the whole model as the only stage: fits[device_count].
 * Overwrites planning->pool. */
void problem_fit_alone(struct planning *planning, bool *fits);
/* Return the bytes of one version of the planned stage. */
uint64_t problem_state_bytes(struct planning *planning, size_t stage);

#endif
