/* restore.h: the state after a start, from the rows of the store. */
#ifndef COORDINATOR_CORE_RESTORE_H
#define COORDINATOR_CORE_RESTORE_H

#include "coordinator/core/core.h"

void restore_on_rows(struct core *core, const struct event *event);

#endif
