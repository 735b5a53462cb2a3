/* join.h: lets a running job take a device that became free. */
#ifndef COORDINATOR_CORE_JOIN_H
#define COORDINATOR_CORE_JOIN_H

#include "coordinator/core/core.h"

struct job_slot;

struct join {
    int64_t after_ms; /* no other device joins before: the last join has paid for itself then */
    uint64_t looked;  /* last pass of join_run over the job */
};

/* Ask the planner what the running jobs gain from a free device, one job at a time. */
void join_run(struct core *core);
/* Replan the job if the answer, core->planned or an error, is worth the move. */
void join_planned(struct core *core, struct job_slot *job, int code);

#endif
