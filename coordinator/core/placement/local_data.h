/* local_data.h: the offers of devices to jobs on data that never leave their devices, and how such
 * a job continues with appended samples (docs/adr/0152). Used by the generations of a job; for
 * groups see local_groups.h. */
#ifndef COORDINATOR_CORE_PLACEMENT_LOCAL_DATA_H
#define COORDINATOR_CORE_PLACEMENT_LOCAL_DATA_H

#include "coordinator/core/core.h"

struct job_slot;

/* Return the device's offer to the job; NULL: the job can train on none of its data. */
const struct offer *local_data_fitting(const struct job_spec *spec, const struct model *model,
                                       const struct device *device);
/* The same of a device that may be unknown. */
const struct offer *local_data_offer(const struct core *core, const struct job_spec *spec,
                                     const struct model *model, const struct device_id *device);
/* Let a job train on all offered samples except those that it holds out. */
void local_data_use(const struct offer *offer, struct job_spec *spec, struct job_data *data);
/* Return whether the offer begins with the data that the job trains on, and has more samples. false
 * if classes become countable, or no longer are: other samples would then be held out. */
bool local_data_extends(const struct offer *offer, const struct job_slot *job);
/* Return whether the device of a job on its own data has appended to them: the next generation of
 * the job trains on more. */
bool local_data_grew(const struct core *core, const struct job_slot *job);
/* Let a generation that begins train on all samples that its device has appended to its own data.
 */
void local_data_take(struct core *core, struct job_slot *job);

#endif
