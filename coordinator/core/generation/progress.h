/* progress.h: step, loss, accuracy and speed of a job. */
#ifndef COORDINATOR_CORE_GENERATION_PROGRESS_H
#define COORDINATOR_CORE_GENERATION_PROGRESS_H

#include "coordinator/core/core.h"
#include "coordinator/core/generation/pace.h"

struct device_slot;
struct job_slot;

#define STEP_WINDOW 32                          /* step times in the reported median */
#define METRIC_NAMES (METRIC_SEGMENTS_PUSH + 1) /* number of metrics that devices report */

/* The steps of the last metrics taken from a device, by name. It reports the metrics of a
 * generation in order and repeats them until they are acknowledged. */
struct metric_mark {
    struct job_id job;
    int64_t generation;
    int64_t step[METRIC_NAMES];
};

struct progress {
    bool advanced;              /* the job has progress that its revision does not show yet */
    int64_t shown_ms;           /* time of the last revision */
    int64_t stored_ms;          /* time of the last row */
    int64_t reached_step;       /* newest step of this generation */
    double known_step_seconds;  /* measured by this plan or an earlier one; 0: not measured */
    double recent_step_seconds; /* median of the last 3 steps of this generation; 0: none */
    struct pace pace;           /* of this generation */
    double evaluation_seconds;  /* duration of the last measured evaluation; 0: not measured */
    double step_seconds[STEP_WINDOW];
    size_t step_count;
    int64_t loss_step, accuracy_step; /* steps of the shown loss, accuracy */
    int64_t recall_step, least_recall_step;
};

/* Take the step of a heartbeat of this generation. */
void progress_take(struct core *core, struct job_slot *job, const struct device_slot *device,
                   const struct heartbeat *heartbeat);
/* Store the metrics of a heartbeat, for any generation whose steps are in the lineage and from any
 * device of the job's plans: devices report late after an outage. */
void progress_take_metrics(struct core *core, struct device_slot *device,
                           const struct heartbeat *heartbeat);
/* Return the median of the newest step times, at most `steps` of this generation; 0: none. */
double progress_recent_seconds(const struct job_slot *job, size_t steps);
/* Set progress back to the plan's resume_version. */
void progress_restart(struct job_slot *job);
/* Set the step and the values that follow from it. */
void progress_set_step(struct job_slot *job, int64_t step);
/* Raise the step to one that a snapshot proves, so that no reported version exceeds the step. */
void progress_reach(struct job_slot *job, int64_t step);
/* Clear the speed: nothing trains. */
void progress_halt(struct job_slot *job);
/* Set the speed to the mean of the whole job, which has ended. */
void progress_end(struct job_slot *job);
/* Abandon the steps after the version, or after a newer committed one, with their metrics. Return
 * whether anything changed. */
bool progress_go_back(struct job_slot *job, int64_t version);
/* Restore the steps of the loss, accuracy and recall that the job's row shows. */
void progress_restore_steps(struct job_slot *job);
/* Restore the progress that the row shows, unless the plan starts from a later version. */
void progress_restore(struct job_slot *job, const struct job_progress *row);

/* Return the median of 1 to STEP_WINDOW values. */
double progress_median(const double *value, size_t count);

#endif
