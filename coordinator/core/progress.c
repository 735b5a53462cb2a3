#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/core_private.h"

/* A step time outside is no measurement, and the speed that would follow from it no number of JSON. */
#define STEP_SECONDS_MIN 1e-9
#define STEP_SECONDS_MAX 1e9

void progress_set_step(struct job_slot *job, int64_t step)
{
    struct job_progress *progress = &job->job.progress;
    int64_t steps_per_epoch = job->job.data.train_samples / job->job.spec.batch;
    progress->step = step;
    progress->steps = job->total_steps;
    progress->fraction = (double)step / (double)job->total_steps;
    /* The epoch of the next step, or of the last one at the end. */
    int64_t at = step < job->total_steps ? step : job->total_steps - 1;
    progress->epoch = at / steps_per_epoch + 1;
    bool trains = plan_active(job) && job->plan.state != PLAN_PREPARING;
    double seconds = trains ? job->plan.measured_step_seconds : 0;
    progress->samples_per_second = seconds > 0 ? (double)job->job.spec.batch / seconds : 0;
    progress->eta_seconds = seconds > 0 ? (double)(job->total_steps - step) * seconds : 0;
}

void progress_halt(struct job_slot *job)
{
    job->job.progress.samples_per_second = job->job.progress.eta_seconds = 0;
}

bool progress_go_back(struct job_slot *job, int64_t version)
{
    struct job_progress *progress = &job->job.progress;
    const struct job_progress before = *progress;
    if (job->loss_step > version) {
        progress->has_loss = false;
        job->loss_step = version;
    }
    if (job->accuracy_step > version) {
        progress->has_accuracy = false;
        job->accuracy_step = version;
    }
    progress_set_step(job, version);
    return progress->step != before.step || progress->has_loss != before.has_loss ||
           progress->has_accuracy != before.has_accuracy || progress->samples_per_second != before.samples_per_second ||
           progress->eta_seconds != before.eta_seconds;
}

void progress_restore(struct job_slot *job, const struct job_progress *told)
{
    progress_restart(job);
    if (told->step < job->plan.resume_version) {
        return;
    }
    job->job.progress = *told;
    job->reached_step = told->step;
    job->loss_step = told->has_loss ? told->step : 0;
    job->accuracy_step = told->has_accuracy ? told->step : 0;
}

void progress_restart(struct job_slot *job)
{
    int64_t version = job->plan.resume_version;
    job->reached_step = version;
    job->step_count = 0;
    /* Steps that are done again are told again; an evaluation of the version itself may still be owed. */
    for (size_t i = 0; i < METRIC_NAMES; i++) {
        bool of_version = i == METRIC_TEST_LOSS || i == METRIC_TEST_ACCURACY;
        int64_t last = of_version ? version - 1 : version;
        job->metric_step[i] = job->metric_step[i] < last ? job->metric_step[i] : last;
    }
    (void)progress_go_back(job, version);
}

static double median(const double *value, size_t count)
{
    double sorted[STEP_WINDOW] = {0};
    ASSERT(count >= 1 && count <= STEP_WINDOW);
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        while (at > 0 && sorted[at - 1] > value[i]) {
            sorted[at] = sorted[at - 1];
            at--;
        }
        sorted[at] = value[i];
    }
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static void take_step_seconds(struct job_slot *job, double seconds)
{
    if (seconds < STEP_SECONDS_MIN || seconds > STEP_SECONDS_MAX) {
        return;
    }
    job->step_seconds[job->step_count % STEP_WINDOW] = seconds;
    job->step_count++;
    job->plan.measured_steps++;
    job->plan.measured_step_seconds =
        median(job->step_seconds, job->step_count < STEP_WINDOW ? job->step_count : STEP_WINDOW);
    job->known_step_seconds = job->plan.measured_step_seconds;
}

/* From the report of the step to that of its evaluation. One that came with the step took no time to speak of. */
static void take_evaluation_seconds(const struct core *core, struct job_slot *job, int64_t version)
{
    if (version == job->reached_step && job->plan.state == PLAN_RUNNING) {
        job->evaluation_seconds = (double)(core->now_ms - job->progress_ms) / 1000;
    }
}

static void take_metric(struct core *core, struct job_slot *job, const struct metric *metric)
{
    struct job_progress *progress = &job->job.progress;
    act_metric(core, job->job.id.text, metric);
    job->progressed = true;
    switch ((enum metric_name)metric->name) {
    case METRIC_LOSS:
        if (metric->step >= job->loss_step) {
            job->loss_step = metric->step;
            progress->loss = metric->value;
            progress->has_loss = true;
        }
        break;
    case METRIC_STEP_SECONDS: take_step_seconds(job, metric->value); break;
    case METRIC_TEST_LOSS: break;
    case METRIC_TEST_ACCURACY:
        take_evaluation_seconds(core, job, metric->step);
        job->accuracy_step = metric->step;
        progress->accuracy = metric->value;
        progress->has_accuracy = true;
        break;
    }
}

/* Metrics are repeated until they are acknowledged: those up to the last one told, by name, are old. */
static void take_metrics(struct core *core, struct job_slot *job, const struct heartbeat *heartbeat)
{
    int64_t last[METRIC_NAMES];
    memcpy(last, job->metric_step, sizeof(last));
    for (size_t i = 0; i < heartbeat->metric_count; i++) {
        const struct metric *metric = &heartbeat->metric[i];
        bool valid = metric->name >= 0 && metric->name < METRIC_NAMES && isfinite(metric->value) && metric->step >= 0 &&
                     metric->step <= job->total_steps;
        if (!valid || metric->step <= job->metric_step[metric->name]) {
            continue;
        }
        take_metric(core, job, metric);
        last[metric->name] = metric->step > last[metric->name] ? metric->step : last[metric->name];
    }
    memcpy(job->metric_step, last, sizeof(last));
}

void progress_take(struct core *core, struct job_slot *job, const struct device_slot *device,
                   const struct heartbeat *heartbeat)
{
    struct stage_report *report = &job->report[device->stage];
    take_metrics(core, job, heartbeat);
    bool valid = heartbeat->step >= job->plan.resume_version && heartbeat->step <= job->total_steps;
    if (valid && heartbeat->step > report->step) {
        report->step = heartbeat->step;
        job->reached_step = heartbeat->step > job->reached_step ? heartbeat->step : job->reached_step;
        job->progressed = true;
        if (job_phase(job) == PHASE_RUN) {
            stall_watch(core, job);
        }
    }
    if (job->progressed) {
        if (device->stage == 0 && valid) {
            progress_set_step(job, report->step > job->plan.resume_version ? report->step : job->plan.resume_version);
        }
        job_mark(core, job);
    }
}
