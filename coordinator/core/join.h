/* join.h: lets a running job take a device that became free. */
#ifndef COORDINATOR_CORE_JOIN_H
#define COORDINATOR_CORE_JOIN_H

#include "coordinator/core/core.h"

struct join {
    int64_t after_ms; /* the last device that joined pays for itself then */
    uint64_t looked;  /* the pass of join_run that looked at the job last */
};

/* Whether jobs that run are better off with a device that is free. */
void join_run(struct core *core);

#endif
