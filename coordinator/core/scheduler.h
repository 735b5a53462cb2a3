/* scheduler.h: which waiting job starts. */
#ifndef COORDINATOR_CORE_SCHEDULER_H
#define COORDINATOR_CORE_SCHEDULER_H

#include "coordinator/core/state.h"

void scheduler_run(struct core *core);
/* Whether some device takes work now. */
bool scheduler_any_free(const struct core *core);

#endif
