/* stall.h: detects that no step completes. */
#ifndef COORDINATOR_CORE_FAILURES_STALL_H
#define COORDINATOR_CORE_FAILURES_STALL_H

#include "coordinator/core/core.h"

struct job_slot;

#define STALL_SHIFT_MAX 6 /* doublings of the step deadline of a job that stalls repeatedly */
#define LATE_SHIFT_MAX 4  /* the same for phase prepare */

struct stall {
    int64_t progress_ms; /* time of the last progress of any stage */
    int64_t task_ms;     /* begin of the newest task that a stage has reported */
    int shift;           /* doublings of the step deadline */
    int late_shift;      /* doublings of the deadline of phase prepare */
};

/* Restart the step deadline: a step completed, or the plan began to run. */
void stall_watch(struct core *core, struct job_slot *job);
/* Take the time that a stage has spent in its present task; 0: it waits. */
void stall_take(const struct core *core, struct job_slot *job, int64_t busy_ms);
/* Handle an expired step deadline: first stalled, then failed. */
void stall_tick(struct core *core, struct job_slot *job);

#endif
