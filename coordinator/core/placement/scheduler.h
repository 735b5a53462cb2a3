/* scheduler.h: starts waiting jobs by priority and age. */
#ifndef COORDINATOR_CORE_PLACEMENT_SCHEDULER_H
#define COORDINATOR_CORE_PLACEMENT_SCHEDULER_H

#include "coordinator/core/core.h"

struct job_slot;

struct scheduled {
    uint64_t pass;   /* last pass over the job */
    int64_t over_ms; /* end of the last wait (TIMER_GATHER, TIMER_RETRY) passed to the scheduler */
    size_t ready;    /* count of ready devices, busy or not, at the last pass */
};

/* Begin plans of waiting jobs, within the limit of one step. */
void scheduler_run(struct core *core);
/* Take the answer to the question of a job: generations_planned. */
void scheduler_planned(struct core *core, struct job_slot *job, int code, const char *text);
/* Return whether a device is free. */
bool scheduler_any_free(const struct core *core);

#endif
