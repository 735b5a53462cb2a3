/* Every change of plan takes one path: generation g+1 starts from version t. The first start, a
 * failure, a pause, a replan and a joining device differ only in the reason and in t. */
#include "coordinator/core/generation/generations.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/collect.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/copies/sources.h"
#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/failures/charges.h"
#include "coordinator/core/failures/failure.h"
#include "coordinator/core/failures/incidents.h"
#include "coordinator/core/failures/recovery.h"
#include "coordinator/core/failures/stall.h"
#include "coordinator/core/failures/weighing.h"
#include "coordinator/core/generation/drift.h"
#include "coordinator/core/generation/ending.h"
#include "coordinator/core/generation/patches.h"
#include "coordinator/core/generation/progress.h"
#include "coordinator/core/generation/tuning.h"
#include "coordinator/core/generation/waiting.h"
#include "coordinator/core/placement/asking.h"
#include "coordinator/core/placement/candidates.h"
#include "coordinator/core/placement/codecs.h"
#include "coordinator/core/placement/local_data.h"
#include "coordinator/core/placement/matching.h"
#include "coordinator/core/placement/placement.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/deadlines.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/ids.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/lineage.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"

/* ---- the next generation ---- */

/* The present plan ends, but its devices stay with the job for now. */
static void retire_plan(struct core *core, struct job_slot *job, int64_t start)
{
    if (states_plan_active(job)) {
        ending_plan(core, job, start);
        if (job->plan.verdict == VERDICT_KEPT) {
            job->plan.verdict = VERDICT_SUPERSEDED;
        }
    }
    job->previous = job->plan;
    job->mark.previous = job->mark.plan;
    job->mark.plan = false;
}

static void make_plan(struct core *core, struct job_slot *job, int reason, int64_t start)
{
    int64_t newest =
        job->job.generation > job->generation.floor ? job->job.generation : job->generation.floor;
    memset(&job->plan, 0, sizeof(job->plan));
    ids_new(core, job->plan.id.text, "plan_");
    job->plan.job = job->job.id;
    job->plan.of = job_part_of(&job->job);
    job->plan.generation = newest + 1;
    job->plan.state = PLAN_PREPARING;
    job->plan.reason = reason;
    job->plan.resume_version = start;
    job->plan.created_ms = core->wall_ms;
    planning_write(core->planned, &job->plan);
    ASSERT(keepers_cover(&job->plan, job->unit_count));
    job->generation.state_bytes = core->planned->state_bytes;
    job->has_plan = true;
    job->job.generation = job->plan.generation;
    lineage_push(&job->job, job->plan.generation, start);
    if (job->job.neighbor_version > start) {
        job->job.neighbor_version = 0; /* cut off */
    }
}

/* A view with a window chooses samples by the losses of earlier steps. A generation that continues
 * does not have these losses. For a group, the log has its start. */
static bool forgets_losses(const struct job *job)
{
    return job->spec.has_view && view_has_window(&job->spec.view) && job->part == JOB_WHOLE;
}

/* The job stays exact while every version came from one numeric class, over links without a codec,
 * and without overlapping steps. Otherwise other stages would give other weights. */
static void take_class(struct job_slot *job, const struct planned *planned)
{
    bool one = strcmp(planned->numeric_class, "mixed") != 0;
    bool same = strcmp(job->job.numeric_class, planned->numeric_class) == 0;
    const bool overlaps = job->job.spec.pipeline == JOB_ASYNC && job->plan.stage_count > 1;
    job->job.exact =
        one && !overlaps && !codecs_in_plan(&job->plan) &&
        (job->plan.resume_version == 0 || (job->job.exact && same && !forgets_losses(&job->job)));
    text_set(job->job.numeric_class, sizeof(job->job.numeric_class), "%s", planned->numeric_class);
}

static void move_devices(struct core *core, struct job_slot *job, bool had_plan)
{
    for (size_t s = 0; had_plan && s < job->previous.stage_count; s++) {
        struct device_slot *device = slots_device(core, job->previous.stage[s].device.text);
        if (device && device->job == job && !states_plan_has(&job->plan, device)) {
            device_release(core, device);
        }
    }
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        device_assign(core, slots_stage_device(core, job, s), job, s);
    }
}

static void tell_prepare(struct core *core, struct job_slot *job)
{
    bool planned = plan_reason_is_planned(job->plan.reason);
    bool tuned = job->plan.reason == PLAN_TUNED && job->job.state != JOB_WAITING_FOR_DEVICES;
    int state = states_waits_in_queue(job)                    ? JOB_PREPARING
                : tuned                                       ? job->job.state
                : job->job.state == JOB_PAUSING               ? JOB_PAUSING
                : job->job.state == JOB_REPLANNING && planned ? JOB_REPLANNING
                                                              : JOB_RECOVERING;
    states_set(core, job, state, plan_reason_names[job->plan.reason],
               "prepares generation %" PRId64 " on %zu device%s from step %" PRId64 "%s%s",
               job->plan.generation, job->plan.stage_count, job->plan.stage_count == 1 ? "" : "s",
               job->plan.resume_version, tuning_wanted(job) ? ", to measure kernels" : "",
               state == JOB_PAUSING ? ", to pause there" : "");
    act_publish_job(core, "plan_made", &job->job, job->plan.id.text,
                    "generation %" PRId64 " of '%s': %zu stage%s from step %" PRId64
                    ", expected step time %.3g s",
                    job->plan.generation, job->job.spec.name, job->plan.stage_count,
                    job->plan.stage_count == 1 ? "" : "s", job->plan.resume_version,
                    job->plan.predicted_step_seconds);
}

static void prepare(struct core *core, struct job_slot *job, int reason, int64_t start)
{
    bool had_plan = job->has_plan;
    if (had_plan) {
        retire_plan(core, job, start);
    }
    make_plan(core, job, reason, start);
    local_data_take(core, job);
    move_devices(core, job, had_plan);
    holdings_add_members(core, job);
    job->stay = false;
    take_class(job, core->planned);
    job->asked = (struct asked){0};
    memset(job->report, 0, sizeof(job->report));
    job->tuning.complete = false;
    sources_choose(core, job);
    ending_timers(core, job);
    job->timer_ms[TIMER_PHASE] = core->now_ms + deadlines_prepare_ms(core, job);
    job->generation.decided_ms = core->now_ms;
    incidents_decided(core, job);
    progress_restart(job);
    deadlines_fill(core, job);
    holdings_touch_job(core, job);
    mark_job_changed(core, job);
    mark_plan_changed(core, job);
    tell_prepare(core, job);
}

/* If no plan follows a plan that stopped as planned, store its version in the center, because its
 * devices may be about to leave. */
static bool store_stopped(struct core *core, struct job_slot *job, int64_t start)
{
    if (states_phase(job) != PHASE_FINISHED || job->job.state != JOB_REPLANNING ||
        job->asked.outside || start != job->plan.last_version || start == job->job.version) {
        return false;
    }
    collect_begin(core, job, start);
    return true;
}

/* Begin the next generation by the answer in core->planned, or end the attempt. */
static bool begin(struct core *core, struct job_slot *job, int reason, int code, const char *text)
{
    patches_apply(job);
    int64_t start = recovery_start(core, job, &device_all_present, &job->cut);
    if (code != 0) {
        if (!store_stopped(core, job, start)) {
            waiting_for_devices(core, job, reason, start, text);
        }
        return false;
    }
    if (core->planned->attempt.avoid == AVOID_NONE && waiting_for_failed(core, job)) {
        return false;
    }
    start = weighing_start(core, job, start);
    if (waiting_for_newer(core, job, start)) {
        return false;
    }
    prepare(core, job, reason, start);
    return true;
}

bool generations_begin(struct core *core, struct job_slot *job, int reason)
{
    struct err err = {0};
    const struct replan_request *wanted = job->job.has_wish ? &job->job.wish : NULL;
    asking_next(core, job, wanted, &device_all_present, core->planning);
    int rc = asking_at_once(core, &err);
    if (rc == ERR_MEMORY && core->planning->hasty) {
        job->asked.outside = core->schedule = true;
    }
    return begin(core, job, reason, rc, err.text);
}

/* ---- plans from searches outside of the step ---- */

/* After so many consecutive answers that are out of date, the search runs within the step. */
#define STALE_MAX 3

bool generations_ask(struct core *core, struct job_slot *job, int reason)
{
    const struct placement_request request = {
        .spec = &job->job.spec, .model = job->model, .job = job, .candidates = CANDIDATES_FREE};
    struct replan_request first;
    const bool cuts = placement_first_request(&job->job.spec, job->job.generation, &first) != NULL;
    size_t there = candidates_there(core, &request).count;
    size_t least = cuts ? first.cut_count + 1 : (size_t)job->job.spec.devices_min;
    if (there < least) {
        return generations_begin(core, job, reason); /* it reports why no plan is possible */
    }
    job->asked.stale = 0;
    job->waiting.reason = reason;
    asking_open(core, job, ASKING_NEXT);
    if (states_waits_in_queue(job)) {
        states_set(core, job, JOB_PLANNING, plan_reason_names[reason],
                   "searches for the best plan");
    }
    return true;
}

/* Search for the next plan while the present one stops. */
static void ask_while_stopping(struct core *core, struct job_slot *job)
{
    job->asked.wanted = core->asking.wanted = true;
}

void generations_ask_stopping(struct core *core)
{
    bool more = false;
    for (size_t i = 0; core->asking.wanted && i < core->jobs.count; i++) {
        struct job_slot *job = slots_job_at(core, i);
        if (!job->asked.wanted || job->mark.ended) {
            continue;
        }
        if (job->job.state != JOB_REPLANNING || job->plan.state != PLAN_STOPPING) {
            job->asked.wanted = false;
        } else if (core->asking.number == 0) {
            job->asked.wanted = false;
            asking_open(core, job, ASKING_NEXT);
        } else {
            more = true;
        }
    }
    core->asking.wanted = more;
}

static bool stop_complete(struct core *core, struct job_slot *job, int64_t *version);

/* The plan has stopped at the version. Begin the next plan as soon as the answer has arrived. */
static void begin_planned(struct core *core, struct job_slot *job, int64_t version)
{
    struct asked *asked = &job->asked;
    if (asked->has_next && !asking_holds(core, job, &asked->next)) {
        asked->has_next = false;
        asked->stale++;
    }
    if (asked->has_next || asked->stale >= STALE_MAX) {
        job->plan.last_version = version;
        *core->planned = asked->next;
        if (asked->has_next) {
            (void)begin(core, job, job->generation.stop_reason, 0, "");
        } else {
            (void)generations_begin(core, job, job->generation.stop_reason);
        }
        return;
    }
    if (!asking_has(core, job) && !asked->wanted) {
        ask_while_stopping(core, job);
    }
    if (job->timer_ms[TIMER_PHASE] != NEVER) {
        job->timer_ms[TIMER_PHASE] = NEVER; /* its devices have done their part */
        mark_job(core, job);
    }
}

bool generations_planned(struct core *core, struct job_slot *job, int code, const char *text)
{
    struct asked *asked = &job->asked;
    int64_t version;
    const bool stops = job->job.state == JOB_REPLANNING;
    const bool holds = code != 0 || asking_holds(core, job, core->planned);
    asked->outside = asked->outside && !stops && !holds;
    if (!stops && holds) {
        return begin(core, job, job->waiting.reason, code, text);
    }
    if (!holds) {
        asked->stale++;
    }
    if (!stops && asked->stale >= STALE_MAX) {
        return generations_begin(core, job, job->waiting.reason);
    }
    if (!stops) {
        asking_open(core, job, ASKING_NEXT);
        return true;
    }
    if (code == 0 && holds) {
        asked->next = *core->planned;
        asked->has_next = true;
    } else {
        /* No plan was found. After the stop, the search within the step reports why, with the
         * devices of that time. */
        asked->stale = code != 0 ? STALE_MAX : asked->stale;
    }
    if (stop_complete(core, job, &version)) {
        begin_planned(core, job, version);
    }
    return true;
}

/* ---- run and stop ---- */

void generations_stop(struct core *core, struct job_slot *job, int reason)
{
    ASSERT(job->plan.state == PLAN_RUNNING);
    job->plan.state = PLAN_STOPPING;
    job->generation.stop_reason = reason;
    job->timer_ms[TIMER_PHASE] = core->now_ms + deadlines_stop_ms(job);
    job->asked = (struct asked){0};
    if (plan_reason_is_planned(reason) && job->job.state == JOB_REPLANNING) {
        ask_while_stopping(core, job);
    }
    mark_plan_changed(core, job);
    holdings_touch_job(core, job);
}

void generations_stop_for(struct core *core, struct job_slot *job, int reason)
{
    generations_stop(core, job, reason);
    job->asked.next = *core->planned;
    job->asked.has_next = true;
    job->asked.wanted = false;
}

static void run(struct core *core, struct job_slot *job)
{
    job->plan.state = PLAN_RUNNING;
    layout_request(&job->plan, &job->ran);
    job->plan.started_ms = core->wall_ms;
    job->plan.prepare_seconds = (double)(core->now_ms - job->generation.decided_ms) / 1000;
    job->timer_ms[TIMER_PHASE] = NEVER;
    ending_drop_request(core, job);
    incidents_ready(core, job);
    deadlines_fill(core, job);
    stall_watch(core, job);
    drift_begin(core, job);
    avoidance_watch(core, job);
    job->job.started_ms = job->job.started_ms == 0 ? core->wall_ms : job->job.started_ms;
    mark_plan_changed(core, job);
    mark_job_changed(core, job);
    holdings_touch_job(core, job);
    if (job->job.state == JOB_PAUSING) {
        generations_stop(core, job, PLAN_REQUESTED);
        return;
    }
    char cost[MESSAGE_SIZE];
    incidents_cost(job, cost, sizeof(cost));
    states_set(core, job, JOB_RUNNING, "", "runs generation %" PRId64 " on %zu device%s%s%.200s",
               job->plan.generation, job->plan.stage_count, job->plan.stage_count == 1 ? "" : "s",
               cost[0] == '\0' ? "" : "; ", cost);
}

static bool all_ready(const struct job_slot *job)
{
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        if (!job->report[s].ready) {
            return false;
        }
    }
    return true;
}

/* Whether every keeper has stopped at the same version and holds its units of it. The other stages
 * need not stop: their work ends with the next generation. */
static bool stop_complete(struct core *core, struct job_slot *job, int64_t *version)
{
    const struct plan *plan = &job->plan;
    *version = job->report[keepers_first(plan)].stopped_version;
    for (size_t s = keepers_first(plan); s < plan->stage_count; s = keepers_next(plan, s)) {
        if (!job->report[s].stopped || job->report[s].stopped_version != *version) {
            return false;
        }
    }
    if (*version < job->plan.resume_version || *version > job->total_steps ||
        !job_has_judged(&job->job, *version)) {
        return false;
    }
    const struct center_version *whole = center_whole(job);
    bool in_center = whole->version == *version && whole->count == job->unit_count;
    return *version == 0 || in_center || job->cut.version == *version ||
           holdings_take_cut(core, job, *version);
}

static void stopped(struct core *core, struct job_slot *job, int64_t version)
{
    progress_set_step(job, version);
    if (version > job->plan.resume_version) {
        charges_start_loaded(job);
        charges_progress(job, version);
    }
    if (states_is_trained(job, version) || job->job.state == JOB_PAUSING) {
        collect_begin(core, job, version);
    } else if (plan_reason_is_planned(job->generation.stop_reason) &&
               job->job.state == JOB_REPLANNING) {
        begin_planned(core, job, version);
    } else {
        job->plan.last_version = version;
        (void)generations_begin(core, job, job->generation.stop_reason);
    }
}

/* A device stops by itself at the end of the job, or after too long a time without the coordinator.
 */
static void stopped_unasked(struct core *core, struct job_slot *job)
{
    int64_t version = -1;
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        version = job->report[s].stopped ? job->report[s].stopped_version : version;
    }
    if (version >= 0 && !states_is_trained(job, version)) {
        states_set(core, job, JOB_REPLANNING, plan_reason_names[PLAN_RESTARTED],
                   "the devices stopped at step %" PRId64 " while the coordinator was away",
                   version);
        generations_stop(core, job, PLAN_RESTARTED);
    } else if (version >= 0 && job->timer_ms[TIMER_PHASE] == NEVER) {
        job->timer_ms[TIMER_PHASE] = core->now_ms + deadlines_stop_ms(job);
        mark_job(core, job);
    }
}

void generations_advance(struct core *core, struct job_slot *job)
{
    int64_t version;
    if (!states_plan_active(job) || job->failure.cause != FAILURE_NONE) {
        return;
    }
    if (job->plan.state == PLAN_PREPARING && all_ready(job)) {
        if (tuning_wanted(job)) {
            tuning_finish(core, job);
        } else {
            run(core, job);
        }
    }
    if (job->plan.state == PLAN_RUNNING) {
        stopped_unasked(core, job);
    }
    bool stopping = states_phase(job) == PHASE_STOPPING || states_phase(job) == PHASE_RUN;
    if (stopping && stop_complete(core, job, &version)) {
        stopped(core, job, version);
    }
}

/* ---- kernels ---- */

void generations_on_tuned(struct core *core, const struct event *event)
{
    const struct event_tuned *tuned = &event->tuned;
    struct job_slot *job = slots_job(core, tuned->job.text);
    int64_t generation;
    if (!job || !core_job_kernels(core, tuned->job.text, &generation) ||
        generation != tuned->generation) {
        return; /* that plan is over */
    }
    if (!tuned->model) {
        failure_note(core, job, (struct blame){.cause = FAILURE_ERROR, .since_ms = core->now_ms},
                     "could not store the measured kernels: %.200s", tuned->message);
        return;
    }
    job->model = tuned->model;
    memcpy(job->job.spec.model.sha256, tuned->sha256, SHA256_SIZE);
    /* The job has trained nothing yet. If devices hold versions nevertheless, they trained them
     * with other kernels, before a backup was restored. */
    lineage_push(&job->job, job->job.generation + 1, 0);
    mark_job_changed(core, job);
    layout_request(&job->plan, &job->ran);
    job->stay = true;
    (void)generations_begin(core, job, PLAN_TUNED);
}
