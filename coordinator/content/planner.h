/* planner.h: searches for plans on worker threads, so that no turn waits for a search; work_stop
 * ends running searches. Each search gets its question by value (core/planning.h); the question's
 * model stays in the catalog until the answer arrives. The loop's thread. */
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

/* A user's question, a member of its owner's struct. */
struct planner_question {
    /* Fill the question when its search begins. false: the owner no longer wants an answer, and has
     * freed the question. */
    bool (*fill)(struct planner_question *question, struct planning *planning);
    /* Take the answer; NULL: the program ends. */
    void (*done)(struct planner_question *question, const struct event_planned *answer);
    struct planner_question *next; /* of the queue */
};

/* Reserve the memory of all searches. ERR_MEMORY. */
NODISCARD int planner_new(struct coordinator *coordinator, struct planner **out, struct err *err);
/* Free the planner, after work_stop. */
void planner_free(struct planner **planner);
/* Answer a question of the core (ACTION_PLAN) with EVENT_PLANNED, in a turn of its own, unless the
 * question is closed or the program ends first. The core opens one question at a time; a running
 * search for an older question ends first. */
void planner_ask(struct planner *planner, uint64_t question);
/* Answer a user's question. Users' questions run one after the other on a separate thread, so that
 * they never delay a question of the core. planner_full must be false. */
void planner_take(struct planner *planner, struct planner_question *question);
/* Queue a further search of a question, from its `done`. It runs after the waiting questions, and
 * needs no room. */
void planner_again(struct planner *planner, struct planner_question *question);
/* Return whether the queue of users' questions is full. */
bool planner_full(const struct planner *planner);

#endif
