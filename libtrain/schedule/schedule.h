/* schedule.h: the order of work of one stage in the synchronous 1F1B schedule: backward before
 * forward, at most in_flight micro-batches between the two, one update after all of them. Asked by
 * the agent's runtime and played by the planner's timeline, so that what is predicted is what is
 * done. Pure. Source: the 1F1B schedule with a flush per step (Narayanan et al., "Memory-efficient
 * pipeline-parallel DNN training", 2021). */
#ifndef LIBTRAIN_SCHEDULE_SCHEDULE_H
#define LIBTRAIN_SCHEDULE_SCHEDULE_H

#include <stddef.h>

enum schedule_work { SCHEDULE_WAIT, SCHEDULE_FORWARD, SCHEDULE_BACKWARD, SCHEDULE_UPDATE };

/* Where a stage stands within its step; micro-batches are done in order, so counts say it all. */
struct schedule_progress {
    size_t micro_batches; /* of the step */
    size_t in_flight;     /* limit, >= 1 */
    size_t inputs;        /* micro-batches whose input is there (stage 0: all of them) */
    size_t gradients; /* micro-batches whose output gradient is there (last stage: = forwards) */
    size_t forwards;  /* done */
    size_t backwards; /* done */
};

/* What to do next; for FORWARD the micro-batch is `forwards`, for BACKWARD it is `backwards`. */
enum schedule_work schedule_next(const struct schedule_progress *progress);

/* The usual in-flight limit of stage `index` of `count`: count - index, at most micro_batches. */
size_t schedule_in_flight(size_t index, size_t count, size_t micro_batches);

#endif
