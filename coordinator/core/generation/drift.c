/* Speeds drift, mostly for a while: a board throttles, another program takes its share, a link gets
 * worse. The plan is checked at certain steps, and at once when a measured time has differed from
 * its value at the last check for a whole window. This module only requests checks: change.c
 * decides. */
#include "coordinator/core/generation/drift.h"

#include <math.h>

#include "coordinator/core/capacity/capacity.h"
#include "coordinator/core/generation/progress.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

/* ---- rules ---- */

enum check_verdict drift_weigh(const struct drift_change *change, double *gain, double *cost)
{
    *gain = change->present_step - change->planned_step;
    *cost = change->present_step + change->move + change->prepare + change->copies;
    const double least = fmax(DRIFT_GAIN_MIN, change->doubt) * change->present_step;
    if (!(*gain >= least) || !(*gain > 0)) {
        return CHECK_TOO_LITTLE_GAIN;
    }
    return *gain * change->steps_left > DRIFT_WORTH * *cost ? CHECK_REPLANS : CHECK_TOO_DEAR;
}

int64_t drift_next_step(const struct job_spec *spec, int64_t step)
{
    const int64_t first = spec->replan_first, every = spec->replan_every;
    if (first > step) {
        return first;
    }
    return every > 0 ? first + ((step - first) / every + 1) * every : INT64_MAX;
}

bool drift_is_on(const struct job_slot *job)
{
    return job->job.spec.replan_first > 0 || job->job.spec.replan_every > 0;
}

/* ---- notes ---- */

void drift_note(struct core *core, struct job_slot *job, int trigger)
{
    if (drift_is_on(job)) {
        job->drift.due = true;
        job->drift.trigger = trigger;
        core->joinable = true;
    }
}

void drift_cool(struct core *core, struct job_slot *job, int64_t ms)
{
    job->drift.cool_ms = core->now_ms + ms;
    job->job.cooldown_ms = ms;
    job->job.cooldown_until_ms = core->wall_ms + ms;
    mark_job_changed(core, job);
}

void drift_back_off(struct core *core, struct job_slot *job, double expected_seconds,
                    double seconds)
{
    const int64_t doublings =
        job->job.setbacks < DRIFT_SETBACKS_MAX ? job->job.setbacks : DRIFT_SETBACKS_MAX;
    const double error = expected_seconds > 0 ? 1 - expected_seconds / seconds : 0;
    drift_cool(core, job, (int64_t)DRIFT_COOL_MS << doublings);
    job->job.setbacks++;
    job->job.doubt = fmin(fmax(job->job.doubt, error), DRIFT_DOUBT_MAX);
}

double drift_doubt(const struct job_slot *job)
{
    const double scatter = DRIFT_SCATTERS * scatter_share(&job->drift.scatter);
    return fmin(fmax(job->job.doubt, scatter), DRIFT_DOUBT_MAX);
}

/* Earlier setbacks do not count for new speeds. */
static void end_setbacks(struct core *core, struct job_slot *job)
{
    const int64_t more_ms = job->job.cooldown_ms - DRIFT_COOL_MS;
    if (job->job.setbacks == 0) {
        return;
    }
    job->job.setbacks = 0;
    job->job.doubt = 0;
    mark_job_changed(core, job);
    if (job->plan.reason == PLAN_ROLLED_BACK && more_ms > 0 && core->now_ms < job->drift.cool_ms) {
        const int64_t left_ms = job->drift.cool_ms - core->now_ms - more_ms;
        drift_cool(core, job, left_ms > 0 ? left_ms : 0);
    }
}

/* The wall clock may have been set back in the meantime. */
void drift_restore(struct core *core, struct job_slot *job)
{
    int64_t ms = job->job.cooldown_until_ms - core->wall_ms;
    ms = ms > job->job.cooldown_ms ? job->job.cooldown_ms : ms;
    job->drift.cool_ms = ms > 0 ? core->now_ms + ms : 0;
}

void drift_checked(struct core *core, struct job_slot *job, int verdict, double gain, double cost)
{
    job->job.last_check = (struct job_check){.step = job->progress.reached_step,
                                             .trigger = job->drift.trigger,
                                             .gain_seconds = gain,
                                             .cost_seconds = cost,
                                             .verdict = verdict};
    job->job.has_last_check = true;
    mark_job_changed(core, job);
}

double drift_stage_seconds(const struct core *core, const struct plan_stage *stage, bool measured)
{
    const struct device_slot *device = slots_device(core, stage->device.text);
    const double seconds =
        measured ? stage->measured_forward_seconds + stage->measured_backward_seconds
                 : stage->predicted_forward_seconds + stage->predicted_backward_seconds;
    return device ? seconds / capacity_of(core, device)->share.seen : seconds;
}

/* Whether the job changed to its plan by itself. */
static bool is_own_change(const struct job_slot *job)
{
    return job->plan.reason == PLAN_DRIFT || job->plan.reason == PLAN_DEVICE_JOINED;
}

static bool is_tried(const struct job_slot *job)
{
    return job->job.has_trial && job->job.trial.generation == job->plan.generation;
}

bool drift_may_correct(const struct job_slot *job)
{
    if (!is_own_change(job) || job->job.corrected || job->job.setbacks > 0 || job->drift.tried ||
        job->progress.step_count < DRIFT_RECENT_STEPS) {
        return false;
    }
    const double seconds = progress_recent_seconds(job, DRIFT_RECENT_STEPS);
    const bool gained =
        is_tried(job) ? seconds <= job->job.trial.step_seconds : job->plan.verdict == VERDICT_KEPT;
    return gained && seconds > (1 + DRIFT_SHARE) * job->plan.predicted_step_seconds;
}

/* After a change, the next one must wait for a completed step: an evaluation may take longer than a
 * cool-down, and each change repeats it. */
static bool has_a_step(const struct job_slot *job)
{
    return !is_own_change(job) || job->progress.reached_step > job->plan.resume_version;
}

/* Whether all stages have measured times. Before that, a check would compare measured times with
 * predictions. */
static bool is_measured(const struct core *core, const struct job_slot *job)
{
    bool measured = true;
    if (!has_a_step(job)) {
        return false;
    }
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        measured = measured && (layout_work(job, s).micro_batches == 0 ||
                                drift_stage_seconds(core, &job->plan.stage[s], true) > 0);
    }
    return measured || core->now_ms - job->drift.began_ms >= DRIFT_STAGES_MS;
}

/* Whether the search for the plan ran within a step, because recovery from a failure cannot wait.
 */
static bool is_hasty(const struct plan *plan)
{
    const bool failure = plan->reason == PLAN_DEVICE_LOST || plan->reason == PLAN_PREPARE_FAILED ||
                         plan->reason == PLAN_LINK || plan->reason == PLAN_STALLED;
    return failure && !plan->optimal;
}

void drift_begin(struct core *core, struct job_slot *job)
{
    struct drift *drift = &job->drift;
    drift->due = drift->goes_back = drift->tried = drift->measured = false;
    drift->checked_step = job->progress.reached_step;
    drift->began_ms = core->now_ms;
    scatter_begin(&drift->scatter, core->now_ms);
    if (job->job.has_trial && job->job.trial.generation != job->plan.generation) {
        job->job.has_trial = false;
        mark_job_changed(core, job);
    }
    drift->step = (struct drift_value){.reference = job->plan.predicted_step_seconds};
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        drift->stage[s] = (struct drift_value){
            .reference = drift_stage_seconds(core, &job->plan.stage[s], false)};
    }
    if (is_hasty(&job->plan)) {
        drift_note(core, job, CHECK_RECOVERED);
    }
}

enum finding { AS_BEFORE, NOT_AS_PREDICTED, CHANGED };

/* Judge a value. If it has differed from its reference for a whole window, it becomes the new
 * reference. After setbacks only a larger difference counts as a change, because the noise that
 * misled the planner continues. */
static enum finding look_at(struct drift_value *value, double seconds, int64_t setbacks,
                            int64_t now_ms)
{
    if (!(seconds > 0)) {
        value->off_ms = 0;
        return AS_BEFORE;
    }
    if (fabs(seconds - value->reference) <= DRIFT_SHARE * value->reference) {
        value->confirmed = true;
        value->off_ms = 0;
        return AS_BEFORE;
    }
    value->off_ms = value->off_ms == 0 ? now_ms : value->off_ms;
    if (now_ms - value->off_ms < DRIFT_WINDOW_MS) {
        return AS_BEFORE;
    }
    const double ratio = fmax(seconds / value->reference, value->reference / seconds);
    const double least = fmin(DRIFT_SHARE * (1 + (double)setbacks), DRIFT_SHARE_MAX);
    const enum finding finding = value->confirmed && ratio > 1 + least ? CHANGED : NOT_AS_PREDICTED;
    *value = (struct drift_value){.reference = seconds, .confirmed = true};
    return finding;
}

/* Compare a change with the last window of the previous plan only: earlier times of that plan were
 * before the drift. */
static void judge(struct core *core, struct job_slot *job)
{
    double seconds = progress_recent_seconds(job, DRIFT_TRIAL_STEPS);
    job->job.has_trial = false;
    mark_job_changed(core, job);
    if (seconds > DRIFT_SLOWER * job->job.trial.step_seconds) {
        job->drift.goes_back = core->joinable = true;
    } else {
        end_setbacks(core, job);
        job->plan.verdict = VERDICT_KEPT;
        mark_plan_changed(core, job);
    }
}

/* The strongest finding of the step and of all stages. */
static enum finding look_at_all(const struct core *core, struct job_slot *job)
{
    struct drift *drift = &job->drift;
    const int64_t setbacks = job->job.setbacks;
    enum finding most = look_at(&drift->step, progress_recent_seconds(job, DRIFT_RECENT_STEPS),
                                setbacks, core->now_ms);
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        const enum finding finding =
            look_at(&drift->stage[s], drift_stage_seconds(core, &job->plan.stage[s], true),
                    setbacks, core->now_ms);
        most = finding > most ? finding : most;
    }
    return most;
}

void drift_take(struct core *core, struct job_slot *job)
{
    struct drift *drift = &job->drift;
    if (states_phase(job) != PHASE_RUN) {
        return;
    }
    if (job->progress.reached_step >= drift_next_step(&job->job.spec, drift->checked_step)) {
        drift->checked_step = job->progress.reached_step;
        drift_note(core, job, CHECK_AT_STEP);
    }
    scatter_take(&drift->scatter, progress_recent_seconds(job, DRIFT_RECENT_STEPS), core->now_ms);
    const enum finding finding = look_at_all(core, job);
    if (finding != AS_BEFORE) {
        drift_note(core, job, CHECK_DRIFT);
    }
    if (finding == CHANGED) {
        end_setbacks(core, job);
    }
    if (!drift->measured && is_measured(core, job)) {
        drift->measured = core->joinable = true;
    }
    if (drift->due && core->now_ms < drift->cool_ms && drift_may_correct(job)) {
        core->joinable = true;
    }
    if (is_tried(job) && job->progress.step_count >= DRIFT_TRIAL_STEPS) {
        judge(core, job);
    }
}

void drift_take_probe(struct core *core, struct device_slot *device,
                      const struct heartbeat *heartbeat)
{
    const double gflops = heartbeat->probe.gemm_gflops;
    if (!heartbeat->has_probe || device->job || !(gflops > 0)) {
        return;
    }
    if (!(fabs(gflops - device->probed_gflops) <= DRIFT_SHARE * device->probed_gflops)) {
        device->probed_gflops = gflops;
        core->joinable = true;
    }
}
