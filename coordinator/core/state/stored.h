/* stored.h: data sets, models and uploaded checkpoints. Handlers of their events. */
#ifndef COORDINATOR_CORE_STATE_STORED_H
#define COORDINATOR_CORE_STATE_STORED_H

#include "coordinator/core/core.h"

void stored_on_dataset(struct core *core, const struct event *event);
void stored_on_model(struct core *core, const struct event *event);
void stored_on_checkpoint(struct core *core, const struct event *event);

#endif
