/* timers.h: the timers of a job. */
#ifndef COORDINATOR_CORE_STATE_TIMERS_H
#define COORDINATOR_CORE_STATE_TIMERS_H

#include "coordinator/core/copies/rounds.h"
#include "coordinator/core/core.h"

struct job_slot;

#define NEVER INT64_MAX /* a time that is never reached: the timer is not set */

enum timer {
    TIMER_PHASE,     /* the deadline of the plan's phase */
    TIMER_SUSPICION, /* an error of code "peer" fails the generation */
    TIMER_STEP,      /* the deadline of the next step, or of a stall */
    TIMER_JOIN,      /* look for more devices */
    TIMER_RETRY,     /* end of the delay of the next generation */
    TIMER_GATHER,    /* end of the wait for devices that may hold a newer version */
    TIMER_EXPORT,    /* the next attempt to export */
    TIMER_ROUND,     /* the deadline of the open round, for each kind */
    TIMER_COUNT = TIMER_ROUND + ROUND_KINDS,
};

/* Clear every timer. */
void timers_clear(struct job_slot *job);
/* Delay every set timer by `ms`. */
void timers_shift(struct job_slot *job, int64_t ms);
/* Return the earliest of due_ms[count], or NEVER. */
int64_t timers_next_ms(const int64_t *due_ms, size_t count);

#endif
