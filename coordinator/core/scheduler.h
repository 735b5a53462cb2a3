/* scheduler.h: which waiting job starts. */
#ifndef COORDINATOR_CORE_SCHEDULER_H
#define COORDINATOR_CORE_SCHEDULER_H

#include "coordinator/core/core.h"

struct scheduled {
    uint64_t pass; /* that looked at the job last */
    size_t ready;  /* devices that took work then, busy or not */
};

void scheduler_run(struct core *core);
/* Whether some device takes work now. */
bool scheduler_any_free(const struct core *core);

#endif
