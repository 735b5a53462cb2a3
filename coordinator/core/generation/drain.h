/* drain.h: lets plans leave a device because a user drains it or because its agent announces that
 * it leaves. */
#ifndef COORDINATOR_CORE_GENERATION_DRAIN_H
#define COORDINATOR_CORE_GENERATION_DRAIN_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* Begin or end the drain that a user asks for. */
void drain_set(struct core *core, struct device_slot *device, bool draining);
/* Take from a heartbeat whether the agent announces that it leaves. */
void drain_take_leaving(struct core *core, struct device_slot *device, bool leaving);
/* Publish `device_drained` once nothing needs the device. */
void drain_check(struct core *core, struct device_slot *device);
/* Ask the planner for the running jobs that have a draining device, one job at a time. */
void drain_run(struct core *core);
/* Stop the plan of the job if the answer, core->planned or an error, does without that device. */
void drain_planned(struct core *core, struct job_slot *job, int code);

#endif
