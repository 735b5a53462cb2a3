/* task_clock.h: how long the tasks of a compute thread take, apart from the time in which a quota
 * or other programs had the processor, and with the rest that --slowdown adds. Its thread calls
 * everything but task_clock_moved and task_clock_busy_ms. Allocates nothing. */
#ifndef AGENT_RUNTIME_TASK_CLOCK_H
#define AGENT_RUNTIME_TASK_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/core/timing.h"
#include "agent/runtime/keeper.h"

struct task_clock {
    struct keeper *keeper;              /* borrowed */
    atomic_int_least64_t busy_since_ms; /* of the present task; 0: the thread waits for one */
    atomic_int_least64_t moved_ms;      /* when bytes for or of a task moved last; 0: never */
    double free_seconds, free_process_seconds; /* when it was last ready for a task */
    /* of the present task */
    double began_seconds, began_thread_seconds, began_waited_seconds;
    double reading_seconds; /* in which it waited for samples */
    struct timing_task timed;
};

/* The thread is ready for its first task. */
void task_clock_init(struct task_clock *clock, struct keeper *keeper);
/* It waits for a task from now on. */
void task_clock_wait(struct task_clock *clock);
/* It is ready for a task from now on: what it did since counts to none. */
void task_clock_free(struct task_clock *clock);
/* It has a task. */
void task_clock_begin(struct task_clock *clock);
/* In between the task reads samples. Those that are not in memory come from the disk: the wait is
 * work, not a stop. */
void task_clock_read(struct task_clock *clock);
void task_clock_has_read(struct task_clock *clock);
/* The task itself is done; rest after it as --slowdown says. Then the thread is ready. */
void task_clock_rest(struct task_clock *clock);
/* The times of the task, but for .work and .unit_seconds. It ends now. */
struct timing_task task_clock_end(struct task_clock *clock);

/* Bytes that a task needs, or has made, move. Any thread. */
void task_clock_moved(struct task_clock *clock);
/* Return the milliseconds since the present task began. While the thread waits for a task: since
 * bytes moved last. 0: there is no task, and no bytes moved for 2 s. A link that moves bytes is no
 * stall. Any thread. */
int64_t task_clock_busy_ms(const struct task_clock *clock);

#endif
