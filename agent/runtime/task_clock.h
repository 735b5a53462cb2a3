/* task_clock.h: measures the tasks of a compute thread: without the time in which a quota or other
 * programs kept the processor from it, and with the rest that --slowdown adds. Only the compute
 * thread calls these functions, except task_clock_moved and task_clock_busy_ms. Allocates
 * nothing. */
#ifndef AGENT_RUNTIME_TASK_CLOCK_H
#define AGENT_RUNTIME_TASK_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/core/timing.h"
#include "agent/runtime/keeper.h"

struct task_clock {
    struct keeper *keeper;              /* borrowed */
    atomic_int_least64_t busy_since_ms; /* begin of the current task; 0: the thread waits for one */
    atomic_int_least64_t moved_ms;      /* when bytes of a task last moved; 0: never */
    double free_seconds, free_process_seconds; /* when the thread was last ready for a task */
    /* of the present task */
    double began_seconds, began_thread_seconds, began_waited_seconds;
    double reading_seconds; /* spent waiting for samples */
    struct timing_task timed;
};

/* Start the clock; the thread is ready for its first task. */
void task_clock_init(struct task_clock *clock, struct keeper *keeper);
/* Note that the thread waits for a task from now on. */
void task_clock_wait(struct task_clock *clock);
/* Note that the thread is ready for a task now. Its time since the last task counts for no task. */
void task_clock_free(struct task_clock *clock);
/* Note that a task begins. */
void task_clock_begin(struct task_clock *clock);
/* Mark the part of a task that reads samples. Samples that are not in memory come from the disk,
 * and this wait is work, not a stop. */
void task_clock_read(struct task_clock *clock);
void task_clock_has_read(struct task_clock *clock);
/* Note that the task is done, and rest as --slowdown requires. After that the thread is ready. */
void task_clock_rest(struct task_clock *clock);
/* End the task and return its times, without .work and .unit_seconds. */
struct timing_task task_clock_end(struct task_clock *clock);

/* Note that bytes of a task's input or output move. Any thread. */
void task_clock_moved(struct task_clock *clock);
/* Return the milliseconds since the current task began or, while the thread waits for a task, since
 * bytes last moved. 0: there is no task and no bytes moved for 2 s. So a link that moves bytes is
 * not a stall. Any thread. */
int64_t task_clock_busy_ms(const struct task_clock *clock);

#endif
