/* schedule.h: the order of work of one stage in the synchronous 1F1B schedule. Backward goes before
 * forward; at most in_flight micro-batches are between the two; one update follows all of them.
 *
 * The agents' pipeline and the planner's timeline ask the same function, so the planner predicts
 * exactly the order that agents follow. That is why it has a library of its own. Pure.
 *
 * Source: the 1F1B schedule with a flush per step (Narayanan et al., "Memory-efficient
 * pipeline-parallel DNN training", 2021). */
#ifndef LIBTRAIN_SCHEDULE_SCHEDULE_H
#define LIBTRAIN_SCHEDULE_SCHEDULE_H

#include <stddef.h>

enum schedule_work { SCHEDULE_WAIT, SCHEDULE_FORWARD, SCHEDULE_BACKWARD, SCHEDULE_UPDATE };

/* Progress of a stage within its step. Micro-batches run in order, so counts are enough. */
struct schedule_progress {
    size_t micro_batches; /* of the step */
    size_t in_flight;     /* limit, >= 1 */
    size_t inputs;        /* micro-batches whose input has arrived (stage 0: all of them) */
    size_t gradients; /* micro-batches whose output gradient has arrived (last stage: = forwards) */
    size_t forwards;  /* done */
    size_t backwards; /* done */
};

/* Return the next piece of work. FORWARD means micro-batch `forwards`, BACKWARD means micro-batch
 * `backwards`. */
enum schedule_work schedule_next(const struct schedule_progress *progress);

/* Return the usual in-flight limit of stage `index` of `count`: count - index, at most
 * micro_batches. */
size_t schedule_in_flight(size_t index, size_t count, size_t micro_batches);

#endif
