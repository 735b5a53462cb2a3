/* change.h: changes the plan of a running job when that pays. */
#ifndef COORDINATOR_CORE_GENERATION_CHANGE_H
#define COORDINATOR_CORE_GENERATION_CHANGE_H

#include "coordinator/core/core.h"

struct job_slot;

/* Ask the planner for the running jobs whose check is due, or that a free device may make faster,
 * one job at a time. Undo changes that made a job slower. */
void change_run(struct core *core);
/* Replan the job if the answer, core->planned or an error, is worth the move. */
void change_planned(struct core *core, struct job_slot *job, int code);

#endif
