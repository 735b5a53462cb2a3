/* All changes are weighed in the same way: a free device, drift and a cordoned device are only
 * different reasons for a check. The search for the plan runs outside of the step, one job at a
 * time. */
#include "coordinator/core/generation/change.h"

#include <inttypes.h>
#include <math.h>

#include "coordinator/core/capacity/profile.h"
#include "coordinator/core/capacity/traffic.h"
#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/generation/drift.h"
#include "coordinator/core/generation/generations.h"
#include "coordinator/core/generation/progress.h"
#include "coordinator/core/placement/asking.h"
#include "coordinator/core/placement/scheduler.h"
#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

#define REBUILD_SECONDS 1.0 /* assumed for a plan that has not been prepared yet */
#define LONGEST_MS 1e12

static bool may_change(const struct job_slot *job)
{
    return !job->mark.ended && job->job.state == JOB_RUNNING && states_phase(job) == PHASE_RUN &&
           job->failure.cause == FAILURE_NONE && drift_is_on(job);
}

static bool may_grow(const struct core *core, const struct job_slot *job)
{
    return (int64_t)job->plan.stage_count < job->job.spec.devices_max &&
           job->plan.stage_count < strategy_stages_max(job->strategy, job->unit_count) &&
           scheduler_any_free(core);
}

/* ---- the cost of a change ---- */

static double seconds_over(struct core *core, const char *from, const char *to, double bytes)
{
    const struct device_slot *a = slots_device(core, from), *b = slots_device(core, to);
    if (!a || !b) {
        return 0;
    }
    return link_transfer_seconds(traffic_link(core, a, b), bytes);
}

/* Bytes of the state of units [first, end), by their parameters. */
static double state_bytes(const struct core *core, const struct job_slot *job, double total,
                          int64_t first, int64_t end)
{
    double bytes = 0;
    for (int64_t u = first; u < end; u++) {
        bytes += (double)core->planning->cost[u].parameter_bytes;
    }
    return total > 0 ? bytes / total * (double)job->generation.state_bytes : 0;
}

/* A stage loads its moved units one after the other; stages load in parallel. In the following
 * round of copies, each keeper sends to the next one. */
static void time_move(struct core *core, const struct job_slot *job, const struct planned *planned,
                      struct drift_change *change)
{
    double total = (double)profile_parameter_bytes(core, job, 0, (int64_t)job->unit_count);
    const size_t stages = planned->stage_count;
    const struct stage_list list = {planned->stage, stages, job->job.spec.micro_batches};
    for (size_t s = 0; s < stages; s++) {
        const struct plan_stage *to = &planned->stage[s];
        const struct stage_work loads = strategy_loads(job->strategy, &list, s);
        double seconds = 0;
        for (size_t o = 0; o < job->plan.stage_count; o++) {
            const struct plan_stage *from = &job->plan.stage[o];
            int64_t first = from->first > loads.first ? from->first : loads.first;
            int64_t end = from->end < loads.end ? from->end : loads.end;
            if (first < end && !id_equal(from->device.text, to->device.text)) {
                seconds += seconds_over(core, from->device.text, to->device.text,
                                        state_bytes(core, job, total, first, end));
            }
        }
        change->move = fmax(change->move, seconds);
        const size_t holder = keepers_holder(planned->stage, stages, s);
        if (holder != s && job->job.spec.neighbor_every > 0) {
            seconds = seconds_over(core, to->device.text, planned->stage[holder].device.text,
                                   state_bytes(core, job, total, to->first, to->end));
            change->copies = fmax(change->copies, seconds);
        }
    }
}

/* The seconds of the present step. If one stage alone now takes longer than the last steps did, a
 * device has slowed down since, and these steps do not measure the plan any more. */
static double measured_seconds(const struct core *core, const struct job_slot *job)
{
    const double steps = progress_recent_seconds(job, DRIFT_RECENT_STEPS);
    double slowest = 0;
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        slowest = fmax(slowest, drift_stage_seconds(core, &job->plan.stage[s], true) *
                                    (double)layout_work(job, s).micro_batches);
    }
    return slowest > (1 + DRIFT_SHARE) * steps ? slowest : steps;
}

/* Both plans are predicted with the present speeds, and the gain is the difference, so that common
 * errors of the predictions cancel. Predictions above the measured step are scaled down to it. A
 * present step of 0: unknown. */
static void time_steps(const struct core *core, const struct job_slot *job,
                       const struct planned *planned, struct drift_change *change)
{
    const double predicted = planned->present_seconds;
    const double measured =
        job->progress.step_count >= DRIFT_STEPS_MEASURED ? measured_seconds(core, job) : 0;
    change->present_step = measured > 0 ? measured : predicted;
    change->planned_step = planned->step_seconds;
    if (measured > 0 && predicted > 0) {
        change->planned_step =
            measured - fmin(1, measured / predicted) * (predicted - planned->step_seconds);
    }
}

/* ---- the answer ---- */

static bool same_codecs(const struct plan *plan, const struct planned *planned)
{
    bool same = true;
    for (size_t s = 0; same && s < planned->stage_count; s++) {
        same = plan->stage[s].codec == planned->stage[s].codec;
    }
    return same;
}

/* Whether the plan is a rejected one: stages that were slower than predicted are not tried again
 * until a speed has changed. */
static bool is_rejected(struct core *core, struct job_slot *job, const struct planned *planned)
{
    const struct job_rejected *rejected = &job->job.rejected;
    if (!job->job.has_rejected ||
        !layout_is(&rejected->stages, planned->stage, planned->stage_count)) {
        return false;
    }
    for (size_t s = 0; s < planned->stage_count; s++) {
        double then = rejected->stage_seconds[s];
        double now = drift_stage_seconds(core, &planned->stage[s], false);
        if (!(fabs(now - then) <= DRIFT_SHARE * then)) {
            job->job.has_rejected = false;
            mark_job_changed(core, job);
            return false;
        }
    }
    return true;
}

static bool has_new_device(const struct job_slot *job, const struct planned *planned)
{
    for (size_t s = 0; s < planned->stage_count; s++) {
        size_t o = 0;
        while (o < job->plan.stage_count &&
               !id_equal(planned->stage[s].device.text, job->plan.stage[o].device.text)) {
            o++;
        }
        if (o == job->plan.stage_count) {
            return true;
        }
    }
    return false;
}

static void change(struct core *core, struct job_slot *job, const struct planned *planned,
                   const struct drift_change *move, double pays_seconds)
{
    bool joined = job->drift.trigger == CHECK_DEVICE_JOINED && has_new_device(job, planned);
    int reason = joined ? PLAN_DEVICE_JOINED : PLAN_DRIFT;
    const double measured = measured_seconds(core, job);
    job->job.corrected = core->now_ms < job->drift.cool_ms;
    /* The next change must wait until this one has paid for itself. */
    double cool_ms = fmin(fmax(1000 * pays_seconds, DRIFT_COOL_MS), LONGEST_MS);
    drift_cool(core, job, (int64_t)cool_ms);
    job->job.has_trial = job->progress.step_count >= DRIFT_STEPS_MEASURED;
    job->job.trial = (struct job_trial){.generation = job->job.generation + 1,
                                        .step_seconds = measured,
                                        .expected_seconds = move->planned_step};
    layout_request(&job->plan, &job->job.trial.before);
    states_set(core, job, JOB_REPLANNING, plan_reason_names[reason],
               "stops to resume on %zu device%s: expected step time %.3g s instead of %.3g s",
               planned->stage_count, planned->stage_count == 1 ? "" : "s", move->planned_step,
               move->present_step);
    generations_stop_for(core, job, reason);
}

void change_planned(struct core *core, struct job_slot *job, int code)
{
    const struct planned *planned = core->planned;
    struct replan_request now;
    if (!may_change(job)) {
        return; /* a user has turned it off since the question */
    }
    layout_request(&job->plan, &now);
    if (code == 0 && !asking_holds(core, job, planned)) {
        job->drift.looked = 0;
        job->drift.due = core->joinable = true; /* a device of the answer has left: check again */
        return;
    }
    struct drift_change move = {
        .steps_left = (double)(job->total_steps - job->progress.reached_step),
        .doubt = drift_doubt(job),
        .prepare = job->plan.prepare_seconds > 0 ? job->plan.prepare_seconds : REBUILD_SECONDS};
    double gain = 0, cost = 0;
    int verdict = CHECK_NO_PLAN;
    if (code == 0) {
        time_steps(core, job, planned, &move);
    }
    if (code == 0 && layout_is(&now, planned->stage, planned->stage_count) &&
        same_codecs(&job->plan, planned)) {
        verdict = CHECK_SAME_PLAN;
    } else if (code == 0 && move.present_step > 0) {
        time_move(core, job, planned, &move);
        verdict = (int)drift_weigh(&move, &gain, &cost);
        verdict =
            verdict == CHECK_REPLANS && is_rejected(core, job, planned) ? CHECK_REJECTED : verdict;
    }
    drift_checked(core, job, verdict, gain, cost);
    if (verdict == CHECK_REPLANS) {
        change(core, job, planned, &move, cost / gain * move.planned_step);
    }
}

/* ---- back to the previous plan ---- */

static bool all_there(struct core *core, const struct job_slot *job,
                      const struct replan_request *stages)
{
    for (size_t i = 0; i < stages->device_count; i++) {
        const struct device_slot *device = slots_device(core, stages->device[i].text);
        if (!device || !device_ready(device) || (device->job && device->job != job)) {
            return false;
        }
    }
    return true;
}

/* If a device of the previous plan has left, ask for the next best plan. */
static void go_back(struct core *core, struct job_slot *job)
{
    const struct replan_request *before = &job->job.trial.before;
    struct job_rejected *rejected = &job->job.rejected;
    double measured = progress_recent_seconds(job, DRIFT_TRIAL_STEPS);
    job->drift.goes_back = false;
    job->drift.trigger = CHECK_SLOWER;
    layout_request(&job->plan, &rejected->stages);
    rejected->stage_count = job->plan.stage_count;
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        const struct plan_stage *stage = &job->plan.stage[s];
        const double seconds = drift_stage_seconds(core, stage, true);
        rejected->stage_seconds[s] =
            seconds > 0 ? seconds : drift_stage_seconds(core, stage, false); /* an old agent */
    }
    job->job.has_rejected = true;
    job->plan.verdict = VERDICT_ROLLED_BACK;
    mark_plan_changed(core, job);
    if (!all_there(core, job, before)) {
        drift_cool(core, job, 0);
        drift_note(core, job, CHECK_SLOWER);
        return;
    }
    drift_checked(core, job, CHECK_ROLLS_BACK, measured - job->job.trial.step_seconds, 0);
    drift_back_off(core, job, job->job.trial.expected_seconds, measured);
    job->job.wish = *before;
    job->job.has_wish = true;
    states_set(core, job, JOB_REPLANNING, plan_reason_names[PLAN_ROLLED_BACK],
               "goes back to the stages before: measured step time %.3g s instead of %.3g s",
               measured, job->job.trial.step_seconds);
    generations_stop(core, job, PLAN_ROLLED_BACK);
}

/* ---- the pass over the jobs ---- */

/* Whether the planner was asked. */
static bool look(struct core *core, struct job_slot *job)
{
    struct drift *drift = &job->drift;
    if ((!drift->due && !may_grow(core, job)) || !drift->measured) {
        return false;
    }
    if (!drift->due) {
        drift->trigger = CHECK_DEVICE_JOINED;
    }
    const bool cools = core->now_ms < drift->cool_ms;
    const bool corrects = cools && drift->due && drift_may_correct(job);
    if (cools) {
        if (!corrects && drift->due &&
            !(job->job.has_last_check && job->job.last_check.verdict == CHECK_COOLS_DOWN)) {
            drift_checked(core, job, CHECK_COOLS_DOWN, 0, 0);
        }
        avoidance_wait(core, job); /* the next check is when the cool-down is over */
        mark_job(core, job);
    }
    if (cools && !corrects) {
        return false;
    }
    drift->tried = corrects;
    drift->due = corrects; /* if a correction changes nothing, the check is repeated later */
    asking_open(core, job, ASKING_CHANGE);
    return true;
}

void change_run(struct core *core)
{
    if (core->asking.number != 0) {
        return; /* the pass continues after that answer */
    }
    if (!core->join_open) {
        core->join_due = false;
        core->join_open = true;
        core->join_pass++;
    }
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = slots_job_at(core, i);
        if (job->drift.looked == core->join_pass || !may_change(job)) {
            continue;
        }
        if (!act_room(core)) {
            return; /* the pass continues in the next step */
        }
        job->drift.looked = core->join_pass;
        if (job->drift.goes_back) {
            go_back(core, job);
        } else if (look(core, job)) {
            return;
        }
    }
    core->join_open = false;
}
