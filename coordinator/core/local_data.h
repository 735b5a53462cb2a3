/* local_data.h: what devices offer to jobs on data that never leave them, and how such a job goes
 * on with samples that were appended (docs/adr/0152). Below the generations of a job;
 * local_groups.h has the groups. */
#ifndef COORDINATOR_CORE_LOCAL_DATA_H
#define COORDINATOR_CORE_LOCAL_DATA_H

#include "coordinator/core/core.h"

struct job_slot;

/* Return what the device offers to the job; NULL: nothing that it can train on. */
const struct offer *local_data_fitting(const struct job_spec *spec, const struct model *model,
                                       const struct device *device);
/* The same of a device that may be unknown. */
const struct offer *local_data_offer(const struct core *core, const struct job_spec *spec,
                                     const struct model *model, const struct device_id *device);
/* Let a job train on all that its device offers, but for what it holds out. */
void local_data_use(const struct offer *offer, struct job_spec *spec, struct job_data *data);
/* Return whether the offer has more than the data that the job trains on, which it begins with.
 * Where classes become countable, or no longer are, others would be held out of those. */
bool local_data_extends(const struct offer *offer, const struct job_slot *job);
/* Return whether the device of a job on its own data has appended to them: the next generation of
 * the job trains on more. */
bool local_data_grew(const struct core *core, const struct job_slot *job);
/* A generation of any job begins: let it train on all that its device has appended to its own data.
 */
void local_data_take(struct core *core, struct job_slot *job);

#endif
