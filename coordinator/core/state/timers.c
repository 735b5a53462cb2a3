#include "coordinator/core/state/timers.h"

#include "coordinator/core/state/state.h"

void timers_clear(struct job_slot *job)
{
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        job->timer_ms[i] = NEVER;
    }
}

void timers_shift(struct job_slot *job, int64_t ms)
{
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        job->timer_ms[i] += job->timer_ms[i] == NEVER ? 0 : ms;
    }
}

int64_t timers_next_ms(const int64_t *due_ms, size_t count)
{
    int64_t least = NEVER;
    for (size_t i = 0; i < count; i++) {
        least = due_ms[i] < least ? due_ms[i] : least;
    }
    return least;
}
