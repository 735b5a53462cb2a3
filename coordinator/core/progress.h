/* progress.h: step, loss, accuracy and speed of a job. */
#ifndef COORDINATOR_CORE_PROGRESS_H
#define COORDINATOR_CORE_PROGRESS_H

#include "coordinator/core/state.h"

void progress_take(struct core *core, struct job_slot *job, const struct device_slot *device,
                   const struct heartbeat *heartbeat);
/* Of any generation whose steps are not abandoned, from any device that a plan of the job had: what
 * it could not tell in time it tells later, whatever it does then. */
void progress_take_metrics(struct core *core, struct device_slot *device,
                           const struct heartbeat *heartbeat);
/* The job goes on from the plan's resume_version. */
void progress_restart(struct job_slot *job);
void progress_set_step(struct job_slot *job, int64_t step);
/* Something proves that the step was done: no version that is told is newer than the step that is
 * told. */
void progress_reach(struct job_slot *job, int64_t step);
/* Nothing trains: there is no speed. */
void progress_halt(struct job_slot *job);
/* The job has ended: its speed is its mean. */
void progress_end(struct job_slot *job);
/* Steps after the version, or a newer committed one, are given up, and what was measured of them.
 * Whether anything changed. */
bool progress_go_back(struct job_slot *job, int64_t version);
/* What was told before the coordinator's restart is true as far as the plan's start does not say
 * otherwise. */
void progress_restore(struct job_slot *job, const struct job_progress *told);

#endif
