/* progress.h: step, loss, accuracy and speed of a job. */
#ifndef COORDINATOR_CORE_PROGRESS_H
#define COORDINATOR_CORE_PROGRESS_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

#define STEP_WINDOW 32 /* step times of which the median is reported */
#define METRIC_NAMES (METRIC_TEST_ACCURACY + 1)

/* The last metrics that a device told, by name: of one generation it tells them in order, and
 * repeats them until they are acknowledged. */
struct metric_mark {
    char job[ID_SIZE];
    int64_t generation;
    int64_t step[METRIC_NAMES];
};

struct progress {
    bool advanced;             /* the revision rises for progress */
    int64_t shown_ms;          /* when it last did */
    int64_t stored_ms;         /* when the row was last written for it */
    int64_t reached_step;      /* of this generation */
    double known_step_seconds; /* measured by this plan or an earlier one; 0: never */
    double evaluation_seconds; /* of the last evaluation that was measured; 0: none was */
    double step_seconds[STEP_WINDOW];
    size_t step_count;
    int64_t loss_step, accuracy_step; /* of progress.loss and progress.accuracy */
};

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
