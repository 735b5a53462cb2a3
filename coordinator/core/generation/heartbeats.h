/* heartbeats.h: distributes the heartbeat of a device to the modules, and answers it. */
#ifndef COORDINATOR_CORE_GENERATION_HEARTBEATS_H
#define COORDINATOR_CORE_GENERATION_HEARTBEATS_H

#include "coordinator/core/core.h"

void heartbeats_on_heartbeat(struct core *core, const struct event *event);

#endif
