/* devices.h: enrolment and the verbs of devices. */
#ifndef COORDINATOR_CORE_DEVICES_H
#define COORDINATOR_CORE_DEVICES_H

#include "coordinator/core/core.h"

void devices_on_enroll(struct core *core, const struct event *event);
void devices_on_contact(struct core *core, const struct event *event);
void devices_on_verb(struct core *core, const struct event *event);
void devices_tick(struct core *core);
/* Deadlines moved because a turn came late. */
void devices_late(struct core *core, int64_t late_ms);

#endif
