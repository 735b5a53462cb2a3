/* profile.h: the times and links of the candidates of a planning; and the times of a model on one
 * device, for users. */
#ifndef COORDINATOR_CORE_CAPACITY_PROFILE_H
#define COORDINATOR_CORE_CAPACITY_PROFILE_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;
struct planning;

/* Fill the unit times, overheads and links of the planning's devices, which are those of
 * core->candidate. Times are means, plus one standard deviation if a unit was not measured. job:
 * NULL, or a job with an optional change of plan. Its times that were not measured are at least
 * those of the device that now runs the unit, scaled by the ratio of both devices. */
void profile_times(const struct core *core, const struct job_slot *job, struct planning *planning);
/* Fill the same for device d, which resembles another device at `speed` times its speed, or of
 * which only a probe is known. */
void profile_like(const struct core *core, struct planning *planning, size_t d,
                  const struct device_slot *like, double speed);
void profile_probed(const struct core *core, struct planning *planning, size_t d,
                    double flops_per_second, double bytes_per_second);
/* Return the bytes of the parameters of units [first, end). Overwrites core->planning->cost. */
uint64_t profile_parameter_bytes(struct core *core, const struct job_slot *job, int64_t first,
                                 int64_t end);

#endif
