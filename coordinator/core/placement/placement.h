/* placement.h: answers a question to the planner: chooses devices for a job and splits its model
 * across them. Pure, on any thread: a question points to nothing but its model. */
#ifndef COORDINATOR_CORE_PLACEMENT_PLACEMENT_H
#define COORDINATOR_CORE_PLACEMENT_PLACEMENT_H

#include "coordinator/core/state/planning.h"

/* Try the attempts of the question in their order. ERR_STATE: too few devices; err says how many
 * are missing. ERR_MEMORY: too little memory; for a new job, err says which field would let it fit.
 * ERR_INVALID: the request cannot be fulfilled. With an error, only out->present_seconds and
 * out->first_failure are valid. planning->work is the work of all searches. */
NODISCARD int placement_solve(struct planning *planning, struct planned *out, struct err *err);
/* Return the stage boundaries that the spec requests for the first plan, in `out`; NULL: none. */
const struct replan_request *placement_first_request(const struct job_spec *spec,
                                                     int64_t generation,
                                                     struct replan_request *out);

#endif
