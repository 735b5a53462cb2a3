/* join.h: lets a running job take a device that became free. */
#ifndef COORDINATOR_CORE_JOIN_H
#define COORDINATOR_CORE_JOIN_H

#include "coordinator/core/state.h"

/* Whether jobs that run are better off with a device that is free. */
void join_run(struct core *core);

#endif
