/* identity.h: decides which of two agents with one identity is refused. */
#ifndef COORDINATOR_CORE_IDENTITY_H
#define COORDINATOR_CORE_IDENTITY_H

#include "coordinator/core/state.h"

/* Whether another boot takes over the device; if not, the problem has been answered. */
bool identity_takes(struct core *core, struct device_slot *device, const char *boot);

#endif
