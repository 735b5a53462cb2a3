/* note.h: rows and reports in the trace. One thread. */
#ifndef TESTS_SIM_NOTE_H
#define TESTS_SIM_NOTE_H

#include "coordinator/core/action.h"
#include "schema/heartbeat.h"
#include "tests/sim/world.h"

/* A PERSIST or FORGET, as one line; what people need not see is left out. */
void note_row(const struct world *world, const struct action *action);
/* What a device says, as one line; only for people: stories do without. */
void note_heartbeat(const struct world *world, int actor, const struct heartbeat *heartbeat);

#endif
