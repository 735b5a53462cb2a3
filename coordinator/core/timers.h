/* timers.h: the points in time at which a job needs a tick. */
#ifndef COORDINATOR_CORE_TIMERS_H
#define COORDINATOR_CORE_TIMERS_H

#include "coordinator/core/core.h"
#include "coordinator/core/rounds.h"

struct job_slot;

#define NEVER INT64_MAX

struct job_slot;

enum timer {
    TIMER_PHASE,     /* the deadline of the plan's phase */
    TIMER_SUSPICION, /* an error of code peer stands, unless its suspicion is settled before */
    TIMER_STEP,      /* the next step, or the end of a stall */
    TIMER_JOIN,      /* look for more devices */
    TIMER_RETRY,     /* the next generation is delayed until then */
    TIMER_GATHER,    /* devices may bring a newer version until then */
    TIMER_EXPORT,    /* the next attempt to export */
    TIMER_ROUND,     /* the open round of each kind */
    TIMER_COUNT = TIMER_ROUND + ROUND_KINDS,
};

void timers_clear(struct job_slot *job);
/* Move every timer that is set. */
void timers_shift(struct job_slot *job, int64_t ms);
/* The earliest of due_ms[count]; NEVER: none. */
int64_t timers_next_ms(const int64_t *due_ms, size_t count);

#endif
