/* planner.h: searches for plans on worker threads, so that no turn waits for a search. Each search
 * is a question as a value (core/planning.h); the model that it points to stays in the catalog
 * until the answer is back. The loop's thread. */
#ifndef COORDINATOR_CONTENT_PLANNER_H
#define COORDINATOR_CONTENT_PLANNER_H

#include <stdint.h>

#include "base/err.h"

struct coordinator;
struct planner;

/* Reserve the memory of all searches. ERR_MEMORY. */
NODISCARD int planner_new(struct coordinator *coordinator, struct planner **out, struct err *err);
/* After work_stop. */
void planner_free(struct planner **planner);
/* Answer a question of the core (ACTION_PLAN) with EVENT_PLANNED, in a turn of its own, unless the
 * question is closed or the program ends before. The core opens one at a time: a search that is
 * under way for an older one goes on to its end first. */
void planner_ask(struct planner *planner, uint64_t question);

#endif
