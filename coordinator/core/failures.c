/* What a generation fails by, what that counts for, and what comes next; what a job waits for by the clock. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "coordinator/core/core_private.h"

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
