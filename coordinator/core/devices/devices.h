/* devices.h: verbs and deadlines of devices. Handlers of their events. */
#ifndef COORDINATOR_CORE_DEVICES_DEVICES_H
#define COORDINATOR_CORE_DEVICES_DEVICES_H

#include "coordinator/core/core.h"

void devices_on_contact(struct core *core, const struct event *event);
void devices_on_verb(struct core *core, const struct event *event);
/* Handle the devices whose deadline has passed. */
void devices_tick(struct core *core);
/* Extend all deadlines by the time in which the coordinator could not listen. */
void devices_late(struct core *core, int64_t late_ms);

#endif
