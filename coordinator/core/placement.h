/* placement.h: chooses devices for a job and splits its model across them. */
#ifndef COORDINATOR_CORE_PLACEMENT_H
#define COORDINATOR_CORE_PLACEMENT_H

#include "coordinator/core/matching.h"
#include "coordinator/core/problem.h"

struct core;

/* Choose a plan into core->planning. ERR_STATE: too few devices, err says how many are missing.
 * ERR_MEMORY: too little memory; for a new job err says whether it fits with recomputation.
 * ERR_INVALID: the request cannot be fulfilled. */
NODISCARD int placement_choose(struct core *core, const struct placement_request *request,
                               struct err *err);
/* List the candidates in core->candidate. Return their count. */
size_t placement_count(struct core *core, const struct placement_request *request);
/* Return the count of candidates and the sum of their free memory, without a list. */
size_t placement_there(const struct core *core, const struct placement_request *request,
                       uint64_t *bytes);
/* Return the stage boundaries that the spec requests for the first plan, in `out`; NULL: none. */
const struct replan_request *placement_first_request(const struct job_spec *spec,
                                                     int64_t generation,
                                                     struct replan_request *out);
/* Write the plan's devices and stage boundaries as a request for the same plan. */
void placement_as_request(const struct plan *plan, struct replan_request *out);
/* Write the chosen stages into a plan. */
void placement_fill(const struct planning *planning, struct plan *plan);
/* Return the size of one version of all units. */
uint64_t placement_state_bytes(const struct planning *planning);
/* Return whether all chosen devices have one numeric class. */
bool placement_one_class(const struct planning *planning);

#endif
