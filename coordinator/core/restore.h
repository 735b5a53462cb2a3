/* restore.h: restores the state from the rows of the store (EVENT_RESTORED). */
#ifndef COORDINATOR_CORE_RESTORE_H
#define COORDINATOR_CORE_RESTORE_H

#include "coordinator/core/core.h"

void restore_on_rows(struct core *core, const struct event *event);

#endif
