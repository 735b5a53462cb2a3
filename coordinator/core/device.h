/* device.h: whether a device can work, and for which job it does. */
#ifndef COORDINATOR_CORE_DEVICE_H
#define COORDINATOR_CORE_DEVICE_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* Devices excluded from a question. */
struct absent {
    const struct device_id *device;
    size_t count;
};

bool device_online(const struct device_slot *device);
/* Reachable for others: online or suspect. */
bool device_reachable(const struct device_slot *device);
/* Whether it takes work, if it is free. */
bool device_ready(const struct device_slot *device);
void device_assign(struct core *core, struct device_slot *device, struct job_slot *job,
                   size_t stage);
void device_release(struct core *core, struct device_slot *device);
bool device_absent(const struct absent *absent, const struct device_slot *device);

#endif
