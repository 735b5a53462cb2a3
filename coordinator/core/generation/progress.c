#include "coordinator/core/generation/progress.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/sort.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/copies/kept.h"
#include "coordinator/core/failures/stall.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/deadlines.h"
#include "coordinator/core/state/lineage.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "schema/job_check.h"

/* A step time outside these bounds is not a measurement, and its speed would not fit JSON. */
#define STEP_SECONDS_MIN 1e-9
#define STEP_SECONDS_MAX 1e9

void progress_set_step(struct job_slot *job, int64_t step)
{
    struct job_progress *progress = &job->job.progress;
    int64_t steps_per_epoch = job_epoch_samples(&job->job.data) / job->job.spec.batch;
    /* A group that mixes continues to train until its parent ends. */
    const bool ends = job->job.spec.steps != STEPS_MAX;
    progress->step = step;
    progress->steps = ends ? job->total_steps : 0;
    progress->fraction = ends ? (double)step / (double)job->total_steps : 0;
    /* The epoch of the next step, or of the last one at the end. */
    int64_t at = step < job->total_steps ? step : job->total_steps - 1;
    progress->epoch = at / steps_per_epoch + 1;
    bool trains = states_plan_active(job) && job->plan.state != PLAN_PREPARING;
    double seconds = trains ? job->plan.measured_step_seconds : 0;
    progress->samples_per_second = seconds > 0 ? (double)job->job.spec.batch / seconds : 0;
    progress->eta_seconds = ends && seconds > 0 ? (double)(job->total_steps - step) * seconds : 0;
}

void progress_halt(struct job_slot *job)
{
    job->job.progress.samples_per_second = job->job.progress.eta_seconds = 0;
}

void progress_reach(struct job_slot *job, int64_t step)
{
    if (step > job->job.progress.step && step <= job->total_steps) {
        progress_set_step(job, step);
    }
}

/* A committed version stays the job's version until a generation starts from an older one. */
static int64_t committed(const struct job *job)
{
    return job->version > job->neighbor_version ? job->version : job->neighbor_version;
}

void progress_end(struct job_slot *job)
{
    struct job_progress *progress = &job->job.progress;
    double seconds = (double)(job->job.ended_ms - job->job.started_ms) / 1000;
    bool trained = job->job.started_ms > 0 && seconds > 0; /* the wall clock may be set back */
    progress->samples_per_second =
        trained ? (double)progress->step * (double)job->job.spec.batch / seconds : 0;
    progress->eta_seconds = 0;
}

bool progress_go_back(struct job_slot *job, int64_t version)
{
    struct job_progress *progress = &job->job.progress;
    version = version > committed(&job->job) ? version : committed(&job->job);
    const struct job_progress before = *progress;
    if (job->progress.loss_step > version) {
        progress->has_loss = false;
        job->progress.loss_step = version;
    }
    if (job->progress.accuracy_step > version) {
        progress->has_accuracy = false;
        job->progress.accuracy_step = version;
    }
    if (job->progress.recall_step > version) {
        progress->has_recall = false;
        job->progress.recall_step = version;
    }
    if (job->progress.least_recall_step > version) {
        progress->has_least_recall = false;
        job->progress.least_recall_step = version;
    }
    progress_set_step(job, version);
    return progress->step != before.step || progress->has_loss != before.has_loss ||
           progress->has_accuracy != before.has_accuracy ||
           progress->has_recall != before.has_recall ||
           progress->has_least_recall != before.has_least_recall ||
           progress->samples_per_second != before.samples_per_second ||
           progress->eta_seconds != before.eta_seconds;
}

void progress_restore_steps(struct job_slot *job)
{
    const struct job_progress *row = &job->job.progress;
    job->progress.loss_step = row->has_loss ? row->step : 0;
    job->progress.accuracy_step = row->has_accuracy ? row->step : 0;
    job->progress.recall_step = row->has_recall ? row->step : 0;
    job->progress.least_recall_step = row->has_least_recall ? row->step : 0;
}

void progress_restore(struct job_slot *job, const struct job_progress *row)
{
    progress_restart(job);
    if (row->step < job->plan.resume_version) {
        return;
    }
    job->job.progress = *row;
    job->progress.reached_step = row->step;
    progress_restore_steps(job);
}

void progress_restart(struct job_slot *job)
{
    int64_t version = job->plan.resume_version;
    job->progress.reached_step = version;
    job->progress.step_count = 0;
    job->progress.recent_step_seconds = 0;
    job->progress.pace = (struct pace){0};
    (void)progress_go_back(job, version);
}

double progress_median(const double *value, size_t count)
{
    double sorted[STEP_WINDOW];
    ASSERT(count >= 1 && count <= STEP_WINDOW);
    memcpy(sorted, value, count * sizeof(sorted[0]));
    return sort_median(sorted, count);
}

double progress_recent_seconds(const struct job_slot *job, size_t steps)
{
    double value[STEP_WINDOW];
    size_t count = job->progress.step_count < STEP_WINDOW ? job->progress.step_count : STEP_WINDOW;
    count = count < steps ? count : steps;
    for (size_t i = 0; i < count; i++) {
        value[i] = job->progress.step_seconds[(job->progress.step_count - 1 - i) % STEP_WINDOW];
    }
    return count > 0 ? progress_median(value, count) : 0;
}

static void take_step_seconds(struct job_slot *job, double seconds)
{
    if (seconds < STEP_SECONDS_MIN || seconds > STEP_SECONDS_MAX) {
        return;
    }
    job->progress.step_seconds[job->progress.step_count % STEP_WINDOW] = seconds;
    job->progress.step_count++;
    job->plan.measured_steps++;
    job->plan.measured_step_seconds = progress_median(
        job->progress.step_seconds,
        job->progress.step_count < STEP_WINDOW ? job->progress.step_count : STEP_WINDOW);
    job->plan.measured_over_predicted =
        job->plan.predicted_step_seconds > 0
            ? job->plan.measured_step_seconds / job->plan.predicted_step_seconds
            : 0;
    job->progress.recent_step_seconds = progress_recent_seconds(job, 3);
    pace_add(&job->progress.pace, seconds);
    job->progress.known_step_seconds = job->plan.measured_step_seconds;
}

/* The time of an evaluation is that between the reports of its step and of its metric. If both
 * arrive together, the evaluation took negligible time. */
static void take_evaluation_seconds(const struct core *core, struct job_slot *job, int64_t version)
{
    if (version == job->progress.reached_step && job->plan.state == PLAN_RUNNING) {
        job->progress.evaluation_seconds = (double)(core->now_ms - job->stall.progress_ms) / 1000;
    }
}

/* present: the metric is of the present generation. */
static void take_metric(struct core *core, struct job_slot *job, const struct metric *metric,
                        bool present)
{
    struct job_progress *progress = &job->job.progress;
    job->progress.advanced = true;
    kept_measured(core, job, metric);
    switch ((enum metric_name)metric->name) {
    case METRIC_LOSS:
        if (metric->step >= job->progress.loss_step) {
            job->progress.loss_step = metric->step;
            progress->loss = metric->value;
            progress->has_loss = true;
        }
        break;
    case METRIC_STEP_SECONDS:
        if (present) {
            take_step_seconds(job, metric->value);
        }
        break;
    case METRIC_TEST_LOSS: break;
    case METRIC_TEST_ACCURACY:
        take_evaluation_seconds(core, job, metric->step);
        if (metric->step >= job->progress.accuracy_step) {
            job->progress.accuracy_step = metric->step;
            progress->accuracy = metric->value;
            progress->has_accuracy = true;
        }
        break;
    case METRIC_RECALL:
        take_evaluation_seconds(core, job, metric->step);
        if (metric->step >= job->progress.recall_step) {
            job->progress.recall_step = metric->step;
            progress->recall = metric->value;
            progress->has_recall = true;
        }
        break;
    case METRIC_LEAST_RECALL:
        if (metric->step >= job->progress.least_recall_step) {
            job->progress.least_recall_step = metric->step;
            progress->least_recall = metric->value;
            progress->has_least_recall = true;
        }
        break;
    case METRIC_PULL_SECONDS:
    case METRIC_PUSH_SECONDS:
    case METRIC_SEGMENTS_PULL:
    case METRIC_SEGMENTS_PUSH:
    case METRIC_MIX_SECONDS:
    case METRIC_DISTANCE:
    case METRIC_PERIOD_CV:
    case METRIC_GAP_SECONDS: break;
    }
}

/* The steps of the metrics taken from this generation; zeros if the last metrics were of another
 * one. */
static int64_t *taken_steps(struct device_slot *device, const struct job_slot *job,
                            int64_t generation)
{
    struct metric_mark *taken = &device->metrics_taken;
    if (taken->generation != generation || !id_equal(taken->job.text, job->job.id.text)) {
        *taken = (struct metric_mark){.job = job->job.id, .generation = generation};
    }
    return taken->step;
}

void progress_take_metrics(struct core *core, struct device_slot *device,
                           const struct heartbeat *heartbeat)
{
    const bool named = heartbeat->metrics_job.text[0] != '\0';
    const struct job_id *of = named ? &heartbeat->metrics_job : &heartbeat->job;
    const int64_t generation =
        named ? heartbeat->metrics_generation : heartbeat->highest_generation;
    struct job_slot *job = heartbeat->metric_count == 0 ? NULL : slots_job(core, of->text);
    if (!job || !holdings_has_member(core, job, device)) {
        return;
    }
    int64_t *taken = taken_steps(device, job, generation);
    int64_t last[METRIC_NAMES];
    memcpy(last, taken, sizeof(last));
    const bool present = device->job == job && generation == job->plan.generation;
    for (size_t i = 0; i < heartbeat->metric_count; i++) {
        const struct metric *metric = &heartbeat->metric[i];
        bool valid = metric->name >= 0 && metric->name < METRIC_NAMES && isfinite(metric->value) &&
                     metric->value >= 0 && metric->step >= 0 && metric->step <= job->total_steps;
        if (!valid || !lineage_holds(&job->job, generation, metric->step)) {
            continue;
        }
        act_metric(core, job->job.id.text, metric);
        if (metric->step <= taken[metric->name]) {
            continue; /* a repeat: stored again if it was not durable; nothing else changes */
        }
        take_metric(core, job, metric, present);
        last[metric->name] = metric->step > last[metric->name] ? metric->step : last[metric->name];
    }
    memcpy(taken, last, sizeof(last));
    if (job->progress.advanced) {
        mark_job(core, job);
    }
}

/* A snapshot of this generation proves its step, whichever stage reports it first. */
static void take_snapshots(struct job_slot *job, const struct heartbeat *heartbeat)
{
    for (size_t i = 0; i < heartbeat->holding_count; i++) {
        const struct holding *holding = &heartbeat->holding[i];
        if (holding->generation == job->plan.generation &&
            id_equal(holding->job.text, job->job.id.text)) {
            progress_reach(job, holding->version);
        }
    }
}

void progress_take(struct core *core, struct job_slot *job, const struct device_slot *device,
                   const struct heartbeat *heartbeat)
{
    struct stage_report *report = &job->report[device->stage];
    bool valid = heartbeat->step >= job->plan.resume_version && heartbeat->step <= job->total_steps;
    if (valid && heartbeat->step > report->step) {
        report->step = heartbeat->step;
        job->progress.reached_step = heartbeat->step > job->progress.reached_step
                                         ? heartbeat->step
                                         : job->progress.reached_step;
        job->progress.advanced = true;
        if (states_phase(job) == PHASE_RUN) {
            stall_watch(core, job);
        } else if (states_phase(job) == PHASE_STOPPING) {
            job->timer_ms[TIMER_PHASE] =
                core->now_ms + deadlines_stop_ms(job); /* the last step may be evaluated now */
            mark_job(core, job);
        }
    }
    take_snapshots(job, heartbeat);
    if (job->progress.advanced) {
        /* The newest step of any stage, because the cost of a failure counts from it. The seconds
         * of the step may be new even if the step is not. */
        int64_t step = job->job.progress.step;
        progress_set_step(job,
                          job->progress.reached_step > step ? job->progress.reached_step : step);
        mark_job(core, job);
    }
}
