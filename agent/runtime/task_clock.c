#include "agent/runtime/task_clock.h"

#include <math.h>
#include <stdbool.h>

#include "base/clock.h"

/* A transfer without a byte for this long is stalled. It must be at most the shortest timeout of a
 * step (STEP_MS_MIN, coordinator/core/state/deadlines.c): the coordinator blames a device whose
 * task takes longer, but must not blame it while bytes move. */
#define MOVED_MS 2000

void task_clock_init(struct task_clock *clock, struct keeper *keeper)
{
    *clock = (struct task_clock){.keeper = keeper};
    atomic_init(&clock->busy_since_ms, 0);
    atomic_init(&clock->moved_ms, 0);
    task_clock_free(clock);
}

void task_clock_wait(struct task_clock *clock)
{
    atomic_store(&clock->busy_since_ms, 0);
}

void task_clock_free(struct task_clock *clock)
{
    clock->free_seconds = clock_now_seconds();
    clock->free_process_seconds = clock_process_seconds();
}

/* Return the time since the thread was ready in which no thread of this process computed, because
 * of a quota or another program. Such a stop often comes at a system call, and so between two
 * tasks. */
static double stolen(const struct task_clock *clock)
{
    const double between = clock->began_seconds - clock->free_seconds;
    const double used = clock_process_seconds() - clock->free_process_seconds;
    return between > used ? between - used : 0;
}

void task_clock_begin(struct task_clock *clock)
{
    atomic_store(&clock->busy_since_ms, clock_now_ms());
    clock->began_seconds = clock_now_seconds();
    clock->timed = (struct timing_task){.began_seconds = clock->began_seconds,
                                        .stopped_seconds = stolen(clock)};
    clock->began_thread_seconds = clock_thread_seconds();
    clock->began_waited_seconds = train_pool_waited_seconds(keeper_pool(clock->keeper));
    clock->reading_seconds = 0;
}

/* Return the time for which the thread did not run, plus a constant. */
static double idle_seconds(void)
{
    return clock_now_seconds() - clock_thread_seconds();
}

void task_clock_read(struct task_clock *clock)
{
    clock->reading_seconds -= idle_seconds();
}

void task_clock_has_read(struct task_clock *clock)
{
    clock->reading_seconds += idle_seconds();
}

void task_clock_rest(struct task_clock *clock)
{
    task_clock_free(clock);
    const double used = clock_thread_seconds() - clock->began_thread_seconds;
    const double waited =
        train_pool_waited_seconds(keeper_pool(clock->keeper)) - clock->began_waited_seconds;
    const double worked = clock->free_seconds - clock->began_seconds;
    const double running = used + waited + clock->reading_seconds;
    const double rested = keeper_rest(clock->keeper, used);
    clock->timed.seconds = running + rested;
    clock->timed.stopped_seconds += fmax(worked - running, 0);
    clock->timed.scale = running > 0 ? 1 + rested / running : 1;
    if (rested > 0) {
        task_clock_free(clock);
    }
}

struct timing_task task_clock_end(struct task_clock *clock)
{
    clock->timed.ended_seconds = clock_now_seconds();
    return clock->timed;
}

void task_clock_moved(struct task_clock *clock)
{
    atomic_store(&clock->moved_ms, clock_now_ms());
}

int64_t task_clock_busy_ms(const struct task_clock *clock)
{
    const int64_t now_ms = clock_now_ms();
    const int64_t since_ms = atomic_load(&clock->busy_since_ms);
    const int64_t moved_ms = atomic_load(&clock->moved_ms);
    const bool moves = moved_ms > 0 && now_ms - moved_ms < MOVED_MS;
    const int64_t busy_ms = since_ms > 0 ? now_ms - since_ms : moves ? now_ms - moved_ms + 1 : 0;
    return busy_ms > 0 ? busy_ms : 0;
}
