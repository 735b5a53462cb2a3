/* challenge.h: a request for an immediate sign of life, and what devices report of each other. */
#ifndef COORDINATOR_CORE_CHALLENGE_H
#define COORDINATOR_CORE_CHALLENGE_H

#include "coordinator/core/state.h"

/* Ask the device for a sign of life at once. */
void challenge_send(struct core *core, struct device_slot *device);
void challenge_clear(struct device_slot *device);
int64_t challenge_next_ms(const struct device_slot *device);
void challenge_late(const struct core *core, struct device_slot *device);
/* When the device was last seen alive, by itself or by its peers. */
int64_t challenge_alive_ms(const struct core *core, const struct device_slot *device);
/* What the device reports of another one; NULL: nothing. */
struct trouble *challenge_trouble(struct device_slot *device, const struct device_id *about);
/* Since when other devices report a refused or broken connection to it; NEVER: none does. */
int64_t challenge_broken_since_ms(const struct core *core, const struct device_slot *device);

#endif
