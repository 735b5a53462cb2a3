/* ending.h: how plans and jobs end. */
#ifndef COORDINATOR_CORE_ENDING_H
#define COORDINATOR_CORE_ENDING_H

#include "coordinator/core/core.h"

struct job_slot;

void ending_job(struct core *core, struct job_slot *job, int state, const char *reason,
                const char *message);
void ending_pause(struct core *core, struct job_slot *job);
/* The borders and devices that were asked for are used, or come to nothing. Until the new plan runs
 * they are kept: a coordinator that starts anew may have to make it again. */
void ending_drop_wish(struct core *core, struct job_slot *job);
/* The active plan ends: its devices are free, what has come of a version that it stored is
 * forgotten. version: where it stopped, unless that is known already. */
void ending_close_plan(struct core *core, struct job_slot *job, int64_t version);
/* End the active plan at `version`, unless it is known already where it stopped; its devices stay
 * assigned. */
void ending_plan(struct core *core, struct job_slot *job, int64_t version);
/* Clear every timer of the job. */
void ending_timers(struct core *core, struct job_slot *job);
/* Close the plan and forget what the devices hold: the center's version is all the job has. */
void ending_put_down(struct core *core, struct job_slot *job);

#endif
