/* join.h: lets a running job take a device that became free. */
#ifndef COORDINATOR_CORE_JOIN_H
#define COORDINATOR_CORE_JOIN_H

#include "coordinator/core/core.h"

struct join {
    int64_t after_ms; /* no other device joins before: the last join has paid for itself then */
    uint64_t looked;  /* last pass of join_run over the job */
};

/* Replan the running jobs that gain from a free device. */
void join_run(struct core *core);

#endif
