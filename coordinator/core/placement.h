/* placement.h: chooses devices for a job and cuts its model over them. */
#ifndef COORDINATOR_CORE_PLACEMENT_H
#define COORDINATOR_CORE_PLACEMENT_H

#include "coordinator/core/matching.h"
#include "coordinator/core/problem.h"

struct core;

/* Fills core->planning. ERR_STATE: too few devices, err says how many are missing; ERR_MEMORY: too
 * little memory (and whether recomputing would do, for a job that is not submitted yet);
 * ERR_INVALID: the wish cannot be met. */
NODISCARD int placement_choose(struct core *core, const struct placement_request *request,
                               struct err *err);
/* How many devices would match, whatever they do now; leaves core->candidate. */
size_t placement_count(struct core *core, const struct placement_request *request);
/* The same without leaving them, and the memory that they have free together. */
size_t placement_there(const struct core *core, const struct placement_request *request,
                       uint64_t *bytes);
/* The cuts that a job's spec wants for its first plan; NULL: none. `out` is the caller's. */
const struct replan_request *placement_first_wish(const struct job_spec *spec, int64_t generation,
                                                  struct replan_request *out);
/* The plan's devices and borders, to be wished for. */
void placement_as_wish(const struct plan *plan, struct replan_request *out);
/* Write the planning's answer into a plan. */
void placement_fill(const struct planning *planning, struct plan *plan);
/* Of one version of the whole state. */
uint64_t placement_state_bytes(const struct planning *planning);
bool placement_one_class(const struct planning *planning);

#endif
