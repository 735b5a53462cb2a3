/* ending.h: how plans and jobs end. */
#ifndef COORDINATOR_CORE_GENERATION_ENDING_H
#define COORDINATOR_CORE_GENERATION_ENDING_H

#include "coordinator/core/core.h"

struct job_slot;

/* End the job in a final state. */
void ending_job(struct core *core, struct job_slot *job, int state, const char *reason,
                const char *message);
/* Pause the job. It keeps the center's version and newer versions that only devices hold. */
void ending_pause(struct core *core, struct job_slot *job);
/* Drop the replan request. Call it when its plan runs or has failed: until then the row keeps the
 * request, as a restarted coordinator may have to repeat the plan. */
void ending_drop_request(struct core *core, struct job_slot *job);
/* End the active plan and free its devices. version: where the plan stopped, unless already known.
 */
void ending_close_plan(struct core *core, struct job_slot *job, int64_t version);
/* The same, but the devices stay assigned. */
void ending_plan(struct core *core, struct job_slot *job, int64_t version);
/* Clear every timer of the job, and end its stall. */
void ending_timers(struct core *core, struct job_slot *job);
/* Close the plan and abandon the snapshots on devices: the job keeps the center's version only. */
void ending_put_down(struct core *core, struct job_slot *job);

#endif
