/* profile.h: measured unit times and links of devices. */
#ifndef COORDINATOR_CORE_PROFILE_H
#define COORDINATOR_CORE_PROFILE_H

#include "coordinator/core/state.h"

void profile_take(struct core *core, struct job_slot *job, struct device_slot *device,
                  const struct heartbeat *heartbeat);
/* Unit times of the planning's devices for the job (NULL: a job that does not exist yet). */
void profile_times(struct planning *planning, const struct job_slot *job);
/* Of the job's units [first, end). Uses the planning's scratch. */
uint64_t profile_parameter_bytes(struct core *core, const struct job_slot *job, int64_t first,
                                 int64_t end);
struct partition_link profile_link(const struct device_slot *a, const struct device_slot *b);

#endif
