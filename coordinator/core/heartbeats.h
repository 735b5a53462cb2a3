/* heartbeats.h: takes the report of a device. */
#ifndef COORDINATOR_CORE_HEARTBEATS_H
#define COORDINATOR_CORE_HEARTBEATS_H

#include "coordinator/core/core.h"

void heartbeats_on_heartbeat(struct core *core, const struct event *event);

#endif
