/* drain.h: a device that plans leave, because a user drains it or because its agent announces that
 * it leaves. */
#ifndef COORDINATOR_CORE_DRAIN_H
#define COORDINATOR_CORE_DRAIN_H

#include "coordinator/core/core.h"

struct device_slot;

/* Begin or end the drain that a user asks for. */
void drain_set(struct core *core, struct device_slot *device, bool draining);
/* Take from a heartbeat whether the agent leaves. */
void drain_take_leaving(struct core *core, struct device_slot *device, bool leaving);
/* Publish `device_drained` once nothing needs the device. */
void drain_check(struct core *core, struct device_slot *device);
/* Stop the running plans that have a draining device and can do without it. */
void drain_run(struct core *core);

#endif
