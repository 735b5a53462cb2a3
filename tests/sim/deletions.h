/* deletions.h: a user who deletes checkpoints, also those that a job still needs, and the edge that
 * serves the call. One thread. */
#ifndef TESTS_SIM_DELETIONS_H
#define TESTS_SIM_DELETIONS_H

#include "tests/sim/net.h"
#include "tests/sim/world.h"

/* Draw whether checkpoints are deleted in this world, and begin. */
void deletions_begin(struct world *world);
/* At the coordinator: read the row and ask the core, or answer that there is none. `step` feeds the
 * core one event. */
void deletions_take(struct world *world, struct call *call,
                    void (*step)(struct world *world, struct event *event, struct call *call));

#endif
