/* device.h: whether a device can work, and its assignment to a job. */
#ifndef COORDINATOR_CORE_STATE_DEVICE_H
#define COORDINATOR_CORE_STATE_DEVICE_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* Devices excluded from a question. */
struct absent {
    const struct device_id *device;
    size_t count;
};
extern const struct absent device_all_present; /* none */

/* Return whether the device is online. */
bool device_online(const struct device_slot *device);
/* Return whether other devices can reach it: online or suspect. */
bool device_reachable(const struct device_slot *device);
/* Return whether plans leave it: a user drains it, or its agent announces that it leaves. */
bool device_drains(const struct device_slot *device);
/* Return whether a plan may use it: online, answering, accepted, neither cordoned nor draining. */
bool device_ready(const struct device_slot *device);
/* Assign the device to a stage of the job; it must be free or work for this job. */
void device_assign(struct core *core, struct device_slot *device, struct job_slot *job,
                   size_t stage);
/* Free the device of its job. */
void device_release(struct core *core, struct device_slot *device);
/* Return whether the device is among the absent ones. */
bool device_absent(const struct absent *absent, const struct device_slot *device);

#endif
