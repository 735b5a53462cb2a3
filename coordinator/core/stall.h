/* stall.h: detects that no step completes. */
#ifndef COORDINATOR_CORE_STALL_H
#define COORDINATOR_CORE_STALL_H

#include "coordinator/core/core.h"

struct job_slot;

#define STALL_SHIFT_MAX 6 /* doublings of the step deadline of a job that stalls repeatedly */
#define LATE_SHIFT_MAX 4  /* the same for phase prepare */

struct stall {
    int64_t progress_ms; /* when some stage's step last rose */
    int shift;           /* the step deadline is doubled so often */
    int late_shift;      /* the same for the deadline of prepare */
};

/* A step was applied, or the plan begins to run: the next is waited for. */
void stall_watch(struct core *core, struct job_slot *job);
void stall_tick(struct core *core, struct job_slot *job);

#endif
