/* servers_problem.h: states the placement of servers and workers on candidates as a problem of
 * coordinator/plan/servers.h, and solves it. Any thread. */
#ifndef COORDINATOR_CORE_PLACEMENT_SERVERS_PROBLEM_H
#define COORDINATOR_CORE_PLACEMENT_SERVERS_PROBLEM_H

#include "base/err.h"
#include "coordinator/core/state/solution.h"

struct planning;

/* scratch_new and scratch_free of the strategy. */
NODISCARD int servers_problem_scratch_new(void **out, struct err *err);
void servers_problem_scratch_free(void *scratch);
/* Choose servers, workers and shares among planning->pool, or take the stages of the request. The
 * answer is planning->solution, whose devices are indices of candidates. ERR_STATE: a server that
 * the job names is not in the pool. Other errors as servers_solve. */
NODISCARD int servers_problem_solve(struct planning *planning,
                                    const struct problem_request *request, struct err *err);
/* Restore the plan and the memory of stages to those of the solution, after another search. */
void servers_problem_resume(struct planning *planning);
/* Set the times of the solution to the expected ones, without margins. The search is over:
 * planning->pool is overwritten. */
void servers_problem_expect(struct planning *planning);
/* Return the expected seconds of a step of the solution with other transfers. Called after
 * servers_problem_expect. */
double servers_problem_seconds(struct planning *planning, enum segments_transfers transfers);

#endif
