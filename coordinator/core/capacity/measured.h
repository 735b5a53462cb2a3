/* measured.h: takes the measurements of heartbeats: checks them, matches them with the steps of the
 * stage, passes them to capacity.h and traffic.h, and requests their storage. */
#ifndef COORDINATOR_CORE_CAPACITY_MEASURED_H
#define COORDINATOR_CORE_CAPACITY_MEASURED_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* Take the measurements of a device of the job's plan. */
void measured_take(struct core *core, struct job_slot *job, struct device_slot *device,
                   const struct heartbeat *heartbeat);
/* Take the measurements of any device: its free memory and, if it is idle, its probe. */
void measured_take_idle(struct core *core, struct device_slot *device,
                        const struct heartbeat *heartbeat);

#endif
