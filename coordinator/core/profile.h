/* profile.h: the times and links of the candidates of a planning; and the times of a model on one
 * device, for users. */
#ifndef COORDINATOR_CORE_PROFILE_H
#define COORDINATOR_CORE_PROFILE_H

#include "coordinator/core/core.h"

struct job_slot;
struct planning;

/* Fill the unit times, overheads and links of the planning's devices, which are those of
 * core->candidate. Times are means, with one standard deviation added where a unit was not
 * measured. */
void profile_times(const struct core *core, struct planning *planning);
/* Return the bytes of the parameters of units [first, end). Overwrites core->planning->cost. */
uint64_t profile_parameter_bytes(struct core *core, const struct job_slot *job, int64_t first,
                                 int64_t end);

#endif
