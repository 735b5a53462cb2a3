/* relays.h: the reported pairs of devices that reach each other only through a relay, and the
 * relays of an assignment. Nothing is stored: devices repeat the report with every heartbeat.
 * docs/adr/0126. */
#ifndef COORDINATOR_CORE_CAPACITY_RELAYS_H
#define COORDINATOR_CORE_CAPACITY_RELAYS_H

#include "coordinator/core/core.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"

struct device_slot;

/* Take the list of a heartbeat. */
void relays_take(struct core *core, struct device_slot *device, const struct heartbeat *heartbeat);
/* Return whether one of the two devices reaches the other only through a relay. */
bool relays_between(const struct device_slot *a, const struct device_slot *b);
/* List the relays of an assignment. */
void relays_fill(const struct core *core, struct assignment *out);

#endif
