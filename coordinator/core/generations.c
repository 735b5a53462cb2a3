/* The one path for every change of plan: generation g+1 from version t. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/core_private.h"

/* ---- the end of a plan ---- */

/* Where it stopped is told already, or is `version`. Rows of half a version mean something only while their plan stores
 * it. */
static void end_plan(struct core *core, struct job_slot *job, int64_t version)
{
    bool ran = job->plan.state != PLAN_PREPARING;
    ASSERT(plan_active(job));
    job->plan.last_version = ran && job->plan.last_version == 0 ? version : job->plan.last_version;
    job->plan.state = ran ? PLAN_DONE : PLAN_DISCARDED;
    job->plan.ended_ms = core->wall_ms;
    plan_changed(core, job);
    rounds_reset(job);
    center_discard(core, job);
}

/* Nothing of the plan is waited for any more. */
static void quiet(struct core *core, struct job_slot *job)
{
    job->deadline_ms = job->suspicion_ms = job->gather_ms = job->retry_ms = job->export_ms = NEVER;
    job->step_due_ms = job->join_ms = NEVER;
    if (job->job.stalled) {
        job->job.stalled = false;
        job_changed(core, job);
    }
}

void plan_close(struct core *core, struct job_slot *job, int64_t version)
{
    job_touch(core, job);
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        struct device_slot *device = stage_device(core, job, s);
        if (device && device->job == job) {
            device_release(core, device);
        }
    }
    quiet(core, job);
    end_plan(core, job, version);
}

/* ---- the next generation ---- */

void wish_drop(struct core *core, struct job_slot *job)
{
    if (job->job.has_wish) {
        job->job.has_wish = false;
        job_changed(core, job);
    }
}

/* The present plan ends, but its devices stay with the job for now. */
static void retire_plan(struct core *core, struct job_slot *job, int64_t start)
{
    if (plan_active(job)) {
        end_plan(core, job, start);
    }
    job->previous = job->plan;
    job->previous_changed = job->plan_changed;
    job->plan_changed = false;
}

static void make_plan(struct core *core, struct job_slot *job, int reason, int64_t start)
{
    int64_t newest = job->job.generation > job->generation_floor ? job->job.generation : job->generation_floor;
    memset(&job->plan, 0, sizeof(job->plan));
    core_id(core, job->plan.id.text, "plan_");
    job->plan.job = job->job.id;
    job->plan.generation = newest + 1;
    job->plan.state = PLAN_PREPARING;
    job->plan.reason = reason;
    job->plan.resume_version = start;
    job->plan.created_ms = core->wall_ms;
    placement_fill(core->planning, &job->plan);
    job->state_bytes = (int64_t)placement_state_bytes(core->planning);
    job->has_plan = true;
    job->job.generation = job->plan.generation;
    line_push(&job->job, job->plan.generation, start);
    if (job->job.neighbor_version > start) {
        job->job.neighbor_version = 0; /* cut off */
    }
}

/* The job stays exact while every version came from one numeric class. */
static void take_class(struct job_slot *job, const struct planning *planning)
{
    bool one = placement_one_class(planning);
    const char *numeric_class = one ? planning->device[0]->device.numeric_class : "mixed";
    bool same = strcmp(job->job.numeric_class, numeric_class) == 0;
    job->job.exact = one && (job->plan.resume_version == 0 || (job->job.exact && same));
    text_set(job->job.numeric_class, sizeof(job->job.numeric_class), "%s", numeric_class);
}

static void move_devices(struct core *core, struct job_slot *job, bool had_plan)
{
    for (size_t s = 0; had_plan && s < job->previous.stage_count; s++) {
        struct device_slot *device = device_find(core, job->previous.stage[s].device.text);
        if (device && device->job == job && !plan_has(&job->plan, device)) {
            device_release(core, device);
        }
    }
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        device_assign(core, stage_device(core, job, s), job, s);
    }
}

static void tell_prepare(struct core *core, struct job_slot *job)
{
    bool planned = job->plan.reason == PLAN_REQUESTED || job->plan.reason == PLAN_DEVICE_JOINED;
    int state = job->job.state == JOB_QUEUED                  ? JOB_PREPARING
                : job->job.state == JOB_PAUSING               ? JOB_PAUSING
                : job->job.state == JOB_REPLANNING && planned ? JOB_REPLANNING
                                                              : JOB_RECOVERING;
    job_set_state(core, job, state, plan_reason_names[job->plan.reason],
                  "prepares generation %" PRId64 " on %zu device%s from step %" PRId64 "%s", job->plan.generation,
                  job->plan.stage_count, job->plan.stage_count == 1 ? "" : "s", job->plan.resume_version,
                  state == JOB_PAUSING ? ", to pause there" : "");
    act_publish(core, "plan_made", job->plan.id.text,
                "generation %" PRId64 " of '%s': %zu stage%s from step %" PRId64 ", %.3g s a step expected",
                job->plan.generation, job->job.spec.name, job->plan.stage_count, job->plan.stage_count == 1 ? "" : "s",
                job->plan.resume_version, job->plan.predicted_step_seconds);
}

static void prepare(struct core *core, struct job_slot *job, int reason, int64_t start)
{
    bool had_plan = job->has_plan;
    if (had_plan) {
        retire_plan(core, job, start);
    }
    make_plan(core, job, reason, start);
    move_devices(core, job, had_plan);
    members_add(core, job);
    job->stay = false;
    take_class(job, core->planning);
    memset(job->report, 0, sizeof(job->report));
    sources_choose(core, job);
    quiet(core, job);
    job->deadline_ms = core->now_ms + prepare_timeout_ms(core, job);
    job->decided_ms = core->now_ms;
    incident_decided(core, job);
    progress_restart(job);
    deadlines_fill(core, job);
    job_touch(core, job);
    job_changed(core, job);
    plan_changed(core, job);
    tell_prepare(core, job);
}

static void wait_for_devices(struct core *core, struct job_slot *job, int reason, int64_t start, const char *text)
{
    wish_drop(core, job);
    job->waiting_reason = reason;
    job->gather_ms = job->retry_ms = NEVER;
    job_mark(core, job);
    if (plan_active(job)) {
        plan_close(core, job, start);
    }
    if (job->job.state == JOB_PAUSING) {
        job_pause_now(core, job);
        return;
    }
    if (progress_go_back(job, start)) {
        job_changed(core, job);
    }
    int state = job->job.state == JOB_QUEUED ? JOB_QUEUED : JOB_WAITING_FOR_DEVICES;
    job_set_state(core, job, state, "waiting_for_devices", "%s", text);
}

int generation_place(struct core *core, const struct job_slot *job, const struct replan_request *wish,
                     const struct absent *without, struct err *err)
{
    struct replan_request first;
    struct placement_request request = {
        .spec = &job->job.spec,
        .model = job->model,
        .job = job,
        .candidates = CANDIDATES_FREE,
        .avoid = true,
        .wish = wish ? wish : placement_first_wish(&job->job.spec, job->job.generation, &first),
        .without = *without,
    };
    if (!wish && job->stay) {
        struct err gone = {0};
        request.wish = &job->ran;
        request.avoid = false;
        if (placement_choose(core, &request, &gone) == 0) {
            return 0;
        }
        request.wish = NULL;
        request.avoid = true;
    }
    int rc = placement_choose(core, &request, err);
    if (rc != 0 && wish) {
        /* The devices have changed since it was asked for. */
        request.wish = NULL;
        rc = placement_choose(core, &request, err);
    }
    if (rc != 0) {
        /* Better with a device that is to be avoided than not at all. */
        request.avoid = false;
        rc = placement_choose(core, &request, err);
    }
    return rc;
}

void generation_gather(struct core *core, struct job_slot *job, int64_t until_ms, const char *format, ...)
{
    char text[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    text_format(text, sizeof(text), format, arguments);
    va_end(arguments);
    job->gather_ms = until_ms;
    job->retry_ms = NEVER;
    job_mark(core, job);
    if (job->job.state != JOB_PAUSING) {
        job_set_state(core, job, JOB_WAITING_FOR_DEVICES, "gathering", "%s", text);
    }
}

/* The first devices that return, after a power cut perhaps, do not give up what those behind them bring along: waiting
 * for these never costs more than the steps would. Whether the job waits. */
static bool wait_for_newer(struct core *core, struct job_slot *job, int64_t start)
{
    int64_t until_ms = core->now_ms + recovery_patience_ms(core, job, start);
    until_ms = until_ms < job->gather_ms ? until_ms : job->gather_ms;
    if (plan_active(job) || until_ms <= core->now_ms) {
        return false;
    }
    generation_gather(core, job, until_ms, "waits for devices that are away: step %" PRId64 " is not the newest it had",
                      start);
    return true;
}

bool generation_begin(struct core *core, struct job_slot *job, int reason)
{
    static const struct cut none;
    const struct absent nobody = {0};
    struct err err = {0};
    int64_t start = recovery_start(core, job, &nobody, &job->cut);
    if (generation_place(core, job, job->job.has_wish ? &job->job.wish : NULL, &nobody, &err) != 0) {
        wait_for_devices(core, job, reason, start, err.text);
        return false;
    }
    if (links_outlasted(core, job, start, recovery_center(job))) {
        incident_gave_up(core, job, start);
        start = recovery_center(job);
        job->cut = none;
    }
    if (wait_for_newer(core, job, start)) {
        return false;
    }
    prepare(core, job, reason, start);
    return true;
}

/* ---- run and stop ---- */

void generation_stop(struct core *core, struct job_slot *job, int reason)
{
    ASSERT(job->plan.state == PLAN_RUNNING);
    job->plan.state = PLAN_STOPPING;
    job->stop_reason = reason;
    job->deadline_ms = core->now_ms + stop_timeout_ms(job);
    plan_changed(core, job);
    job_touch(core, job);
}

static void run(struct core *core, struct job_slot *job)
{
    job->plan.state = PLAN_RUNNING;
    placement_as_wish(&job->plan, &job->ran);
    job->plan.started_ms = core->wall_ms;
    job->plan.prepare_seconds = (double)(core->now_ms - job->decided_ms) / 1000;
    job->deadline_ms = NEVER;
    wish_drop(core, job);
    incident_ready(core, job);
    deadlines_fill(core, job);
    stall_watch(core, job);
    join_watch(core, job);
    job->job.started_ms = job->job.started_ms == 0 ? core->wall_ms : job->job.started_ms;
    plan_changed(core, job);
    job_changed(core, job);
    job_touch(core, job);
    if (job->job.state == JOB_PAUSING) {
        generation_stop(core, job, PLAN_REQUESTED);
        return;
    }
    char cost[MESSAGE_SIZE];
    incident_cost(job, cost, sizeof(cost));
    job_set_state(core, job, JOB_RUNNING, "", "runs generation %" PRId64 " on %zu device%s%s%.200s",
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

/* Whether every stage has stopped at the same version and holds its units of it. */
static bool stop_complete(struct core *core, struct job_slot *job, int64_t *version)
{
    *version = job->report[0].stopped_version;
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        if (!job->report[s].stopped || job->report[s].stopped_version != *version) {
            return false;
        }
    }
    if (*version < job->plan.resume_version || *version > job->total_steps) {
        return false;
    }
    const struct center_version *whole = center_whole(job);
    bool in_center = whole->version == *version && whole->count == job->unit_count;
    return *version == 0 || in_center || job->cut.version == *version || cut_take(core, job, *version);
}

static void stopped(struct core *core, struct job_slot *job, int64_t version)
{
    progress_set_step(job, version);
    if (version > job->plan.resume_version) {
        job->failures = job->faults = job->stall_shift = 0;
        links_reset(job);
    }
    if (version == job->total_steps || job->job.state == JOB_PAUSING) {
        center_collect(core, job, version);
    } else {
        job->plan.last_version = version;
        (void)generation_begin(core, job, job->stop_reason);
    }
}

/* A device stops by itself at the end of the job, or when it was without its coordinator for too long. */
static void stopped_unasked(struct core *core, struct job_slot *job)
{
    int64_t version = -1;
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        version = job->report[s].stopped ? job->report[s].stopped_version : version;
    }
    if (version >= 0 && version < job->total_steps) {
        job_set_state(core, job, JOB_REPLANNING, plan_reason_names[PLAN_RESTARTED],
                      "devices have stopped at step %" PRId64 " without their coordinator", version);
        generation_stop(core, job, PLAN_RESTARTED);
    } else if (version >= 0 && job->deadline_ms == NEVER) {
        job->deadline_ms = core->now_ms + stop_timeout_ms(job);
        job_mark(core, job);
    }
}

void generation_advance(struct core *core, struct job_slot *job)
{
    int64_t version;
    if (!plan_active(job) || job->failure.cause != FAILURE_NONE) {
        return;
    }
    if (job->plan.state == PLAN_PREPARING && all_ready(job)) {
        run(core, job);
    }
    if (job->plan.state == PLAN_RUNNING) {
        stopped_unasked(core, job);
    }
    bool stopping = job_phase(job) == PHASE_STOPPING || job_phase(job) == PHASE_RUN;
    if (stopping && stop_complete(core, job, &version)) {
        stopped(core, job, version);
    }
}

/* ---- failures ---- */

void generation_fail(struct core *core, struct job_slot *job, struct blame blame, const char *format, ...)
{
    struct failure *failure = &job->failure;
    bool stored = job_phase(job) == PHASE_FINISHED && center_whole(job)->version == job->plan.last_version;
    if (!plan_active(job) || stored || failure->cause != FAILURE_NONE) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    text_format(failure->text, sizeof(failure->text), format, arguments);
    va_end(arguments);
    const struct device_slot *const devices[] = {blame.device, blame.other};
    failure->cause = blame.cause;
    failure->since_ms = blame.since_ms;
    failure->device_count = 0;
    for (size_t i = 0; i < 2; i++) {
        if (devices[i]) {
            struct incident_device *device = &failure->device[failure->device_count++];
            device->id = devices[i]->device.id;
            memcpy(device->name, devices[i]->device.name, sizeof(device->name));
        }
    }
    job_mark(core, job);
}

static int failure_reason(const struct job_slot *job, enum failure_cause cause)
{
    bool preparing = job->plan.state == PLAN_PREPARING;
    switch (cause) {
    case FAILURE_DEVICE_LOST: return PLAN_DEVICE_LOST;
    case FAILURE_LINK: return PLAN_LINK;
    case FAILURE_STALLED: return PLAN_STALLED;
    case FAILURE_ERROR:
    case FAILURE_DEADLINE: return preparing ? PLAN_PREPARE_FAILED : PLAN_RESTARTED;
    case FAILURE_RESTARTED:
    case FAILURE_NONE: break;
    }
    return PLAN_RESTARTED;
}

/* A step beyond where the generation began counts as progress, unless an error always strikes at the same step. */
static bool made_progress(struct job_slot *job, enum failure_cause cause)
{
    bool error = cause == FAILURE_ERROR || cause == FAILURE_DEADLINE;
    bool progress = job->reached_step > job->plan.resume_version && (!error || job->reached_step > job->error_step);
    if (error && job->reached_step > job->error_step) {
        job->error_step = job->reached_step;
    }
    return progress;
}

/* Poison is what fails again and again by the job's own doing: a job that stalls is given more and more time first.
 * Devices that are lost or start anew, one after the other, are none, nor is a link that stays cut. */
static void count_failure(const struct core *core, struct job_slot *job, enum failure_cause cause)
{
    bool progress = made_progress(job, cause);
    if (progress || job->reached_step > job->plan.resume_version) {
        links_reset(job);
    }
    if (cause == FAILURE_LINK) {
        links_count(core, job);
    }
    if (progress) {
        job->failures = job->faults = job->stall_shift = 0;
        return;
    }
    bool patient = cause == FAILURE_STALLED && job->stall_shift < STALL_SHIFT_MAX;
    bool fault = cause == FAILURE_ERROR || cause == FAILURE_DEADLINE || (cause == FAILURE_STALLED && !patient);
    job->stall_shift += patient;
    job->faults += fault;
    bool good_start = job->reached_step > job->plan.resume_version;
    job->failures = good_start ? 0 : job->failures + fault;
}

/* The devices that have just come back tell what they hold, then the job goes on. */
static void gather(struct core *core, struct job_slot *job)
{
    plan_close(core, job, job->plan.resume_version);
    progress_halt(job);
    job_changed(core, job);
    job->waiting_reason = PLAN_RESTARTED;
    core->schedule = true;
    generation_gather(core, job, core->now_ms + core->config.lease_ms, "asks its devices what they hold");
}

void generation_failed(struct core *core, struct job_slot *job)
{
    const struct failure failure = job->failure;
    job->failure.cause = FAILURE_NONE;
    if (job->ended || !plan_active(job)) {
        return;
    }
    int reason = failure_reason(job, failure.cause);
    count_failure(core, job, failure.cause);
    job->stay = failure.cause == FAILURE_LINK && links_can_stay(core, job);
    incident_failed(core, job, &failure);
    memcpy(job->plan.failure, failure.text, MESSAGE_SIZE);
    plan_changed(core, job);
    act_publish(core, "generation_failed", job->plan.id.text, "generation %" PRId64 ": %s", job->plan.generation,
                failure.text);
    if (job->faults >= FAILURES_MAX) {
        job_end(core, job, JOB_FAILED, "no_progress", failure.text);
        return;
    }
    wish_drop(core, job);
    int64_t pause_ms = failure.cause == FAILURE_LINK ? links_pause_ms(core, job) : 0;
    if (recovery_must_gather(core, job)) {
        gather(core, job);
    } else if (pause_ms > 0) {
        links_back_off(core, job, pause_ms, failure.text);
    } else {
        (void)generation_begin(core, job, reason);
    }
}

void generation_tick(struct core *core, struct job_slot *job)
{
    if (job->export_ms <= core->now_ms) {
        center_export(core, job);
    }
    if (job->gather_ms <= core->now_ms) {
        job->gather_ms = core->now_ms;
        core->schedule = true;
    }
    if (job->retry_ms <= core->now_ms) {
        job->retry_ms = core->now_ms;
        core->schedule = true;
    }
    if (job->suspicion_ms <= core->now_ms) {
        job->suspicion_ms = NEVER;
        job_mark(core, job);
        suspicion_settle(core, job);
    }
    stall_tick(core, job);
    rounds_tick(core, job);
    if (job->join_ms <= core->now_ms) {
        job->join_ms = NEVER;
        core->joinable = true;
        job_mark(core, job);
    }
    if (job->deadline_ms <= core->now_ms) {
        job->deadline_ms = NEVER;
        job_mark(core, job);
        generation_fail(core, job, (struct blame){.cause = FAILURE_DEADLINE, .since_ms = core->now_ms},
                        "phase %s did not end in time, %" PRId64 " s after its plan was made",
                        phase_names[job_phase(job)], (core->now_ms - job->decided_ms) / 1000);
    }
}
