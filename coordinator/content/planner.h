/* planner.h: searches for plans on worker threads, so that no turn waits for a search; work_stop
 * ends those under way. Each search is a question as a value (core/planning.h); the model that it
 * points to stays in the catalog until the answer is back. The loop's thread. */
#ifndef COORDINATOR_CONTENT_PLANNER_H
#define COORDINATOR_CONTENT_PLANNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct coordinator;
struct event_planned;
struct planner;
struct planning;

#define PLANNER_QUESTIONS_MAX 4 /* questions of users that wait for the one under way */

/* A question of a user, part of its owner's struct. */
struct planner_question {
    /* Fill the question when its turn comes. false: the owner wants no answer and has ended it. */
    bool (*fill)(struct planner_question *question, struct planning *planning);
    /* Take the answer; NULL: the program ends. */
    void (*done)(struct planner_question *question, const struct event_planned *answer);
    struct planner_question *next; /* of the queue */
};

/* Reserve the memory of all searches. ERR_MEMORY. */
NODISCARD int planner_new(struct coordinator *coordinator, struct planner **out, struct err *err);
/* After work_stop. */
void planner_free(struct planner **planner);
/* Answer a question of the core (ACTION_PLAN) with EVENT_PLANNED, in a turn of its own, unless the
 * question is closed or the program ends before. The core opens one at a time: a search that is
 * under way for an older one goes on to its end first. */
void planner_ask(struct planner *planner, uint64_t question);
/* Answer a question of a user, one after the other on a thread of their own: they never hold up a
 * question of the core. There must be room. */
void planner_take(struct planner *planner, struct planner_question *question);
/* The same for a further search of a question, in its `done`: after those that wait, whatever room
 * there is. */
void planner_again(struct planner *planner, struct planner_question *question);
/* Return whether as many questions of users wait as may. */
bool planner_full(const struct planner *planner);

#endif
