/* What a generation fails by, whom that is charged to, and what comes next; what a job waits for by
 * the clock. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "coordinator/core/core_private.h"

/* A job that is put off again and again waits a lease, then twice as long each time. */
#define PUT_OFF_MS_MAX 300000
#define PUT_OFF_SHIFT_MAX 16

/* ---- noting it ---- */

static void add_device(struct failure *failure, const struct device_slot *device)
{
    if (device && failure->device_count < STAGES_MAX) {
        struct incident_device *at = &failure->device[failure->device_count++];
        at->id = device->device.id;
        memcpy(at->name, device->device.name, sizeof(at->name));
    }
}

void generation_fail(struct core *core, struct job_slot *job, struct blame blame,
                     const char *format, ...)
{
    struct failure *failure = &job->failure;
    bool stored =
        job_phase(job) == PHASE_FINISHED && center_whole(job)->version == job->plan.last_version;
    if (!plan_active(job) || stored || failure->cause != FAILURE_NONE) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    text_format(failure->text, sizeof(failure->text), format, arguments);
    va_end(arguments);
    text_set(failure->code, sizeof(failure->code), "%s",
             blame.code ? blame.code : phase_names[job_phase(job)]);
    failure->cause = blame.cause;
    failure->since_ms = blame.since_ms;
    failure->device_count = 0;
    add_device(failure, blame.device);
    add_device(failure, blame.other);
    job_mark(core, job);
}

/* Whether the phase waits for the stage's device. */
static bool is_late(const struct job_slot *job, size_t stage)
{
    switch (job_phase(job)) {
    case PHASE_PREPARE: return !job->report[stage].ready;
    case PHASE_RUN:
    case PHASE_STOPPING: return !job->report[stage].stopped;
    case PHASE_FINISHED: return center_owes(job, stage);
    case PHASE_IDLE:
    case PHASE_READY:
    case PHASE_STOPPED: break;
    }
    return false;
}

/* When all are late it says nothing of any of them. */
static void fail_late(struct core *core, struct job_slot *job)
{
    const struct blame blame = {.cause = FAILURE_DEADLINE, .since_ms = core->now_ms};
    const struct device_slot *late[STAGES_MAX];
    const char *phase = phase_names[job_phase(job)];
    int64_t seconds = (core->now_ms - job->decided_ms) / 1000;
    size_t count = 0;
    if (job->failure.cause != FAILURE_NONE) {
        return; /* another failure was noted in this turn: it is not theirs */
    }
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        const struct device_slot *device = is_late(job, s) ? stage_device(core, job, s) : NULL;
        if (device) {
            late[count++] = device;
        }
    }
    if (count == 0 || (count > 1 && count == job->plan.stage_count)) {
        generation_fail(core, job, blame,
                        "phase %s did not end in time, %" PRId64 " s after its plan was made",
                        phase, seconds);
        return;
    }
    char more[64] = "";
    if (count > 1) {
        text_set(more, sizeof(more), " and %zu more", count - 1);
    }
    generation_fail(core, job, blame,
                    "phase %s did not end in time, %" PRId64 " s after its plan was made: device"
                    " '%.60s'%s is late",
                    phase, seconds, late[0]->device.name, more);
    for (size_t i = 0; i < count; i++) {
        add_device(&job->failure, late[i]);
    }
}

/* ---- whom it is charged to ---- */

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

void failures_forget(struct job_slot *job)
{
    job->faults = job->put_offs = job->stall_shift = job->late_shift = 0;
    job->charge.count = 0;
    stuck_forget(job);
    links_reset(job);
    avoid_nobody(job);
}

void failures_retry(struct core *core, struct job_slot *job)
{
    failures_forget(job);
    job->retry_ms = job->retry_ms == NEVER ? NEVER : core->now_ms;
    job_changed(core, job);
    core->schedule = true;
}

void failures_progress(struct job_slot *job, int64_t step)
{
    if (step > job->furthest_step) {
        job->furthest_step = step;
        job->faults = job->put_offs = job->stall_shift = job->late_shift = 0;
        job->charge.count = 0;
        links_reset(job);
    }
}

/* A device that fails once more is charged itself: the job is when another one fails in the same
 * way. */
static bool charge(struct job_slot *job, const struct failure *failure)
{
    struct charge *charge = &job->charge;
    if (strcmp(charge->code, failure->code) != 0) {
        *charge = (struct charge){.count = 0};
        memcpy(charge->code, failure->code, sizeof(charge->code));
    }
    for (size_t i = 0; i < failure->device_count && charge->count < FAILURES_MAX; i++) {
        size_t at = 0;
        while (at < charge->count &&
               strcmp(charge->device[at].text, failure->device[i].id.text) != 0) {
            at++;
        }
        if (at == charge->count) {
            charge->device[charge->count++] = failure->device[i].id;
            return true;
        }
    }
    return false;
}

/* What the job itself is charged with: a job that stalls is given more and more time first, and is
 * then charged whoever was at work. Devices that are lost or start anew are no fault of it, nor is
 * a link that stays cut. Whether the job is to blame by now. */
static bool count_fault(struct job_slot *job, const struct failure *failure)
{
    switch (failure->cause) {
    case FAILURE_NONE:
    case FAILURE_DEVICE_LOST:
    case FAILURE_RESTARTED:
    case FAILURE_LINK: return false;
    case FAILURE_STALLED:
        if (job->stall_shift < STALL_SHIFT_MAX) {
            job->stall_shift++;
            return false;
        }
        break;
    case FAILURE_ERROR:
    case FAILURE_DEADLINE: break;
    }
    if (failure->device_count == 0 || failure->cause == FAILURE_STALLED) {
        return ++job->faults >= FAILURES_MAX;
    }
    return charge(job, failure) && job->charge.count >= FAILURES_MAX;
}

/* The device's own copy of a unit was damaged, and is gone. */
static bool found_damage(const struct failure *failure)
{
    return strcmp(failure->code, "snapshot") == 0;
}

/* Who failed by itself is left out, before anything is charged to the job. Who is lost may be so
 * again as soon as it returns. */
static void avoid_devices(struct core *core, struct job_slot *job, const struct failure *failure,
                          bool advanced)
{
    bool failed = failure->cause == FAILURE_ERROR || failure->cause == FAILURE_DEADLINE;
    bool lost = failure->cause == FAILURE_DEVICE_LOST || failure->cause == FAILURE_RESTARTED;
    for (size_t i = 0; i < failure->device_count; i++) {
        const struct device_slot *device = device_find(core, failure->device[i].id.text);
        if (device && (failed || (lost && !advanced))) {
            avoid(core, job, device,
                  lost                    ? AVOID_LOST
                  : found_damage(failure) ? AVOID_DAMAGE
                                          : AVOID_FAILED);
        }
    }
}

/* Whether a device could not load the version that the generation was to start from. A damaged copy
 * says nothing of the version: others have it, or the next start is another one. */
static bool blames_start(const struct core *core, const struct job_slot *job,
                         const struct failure *failure)
{
    const struct device_slot *device =
        found_damage(failure) ? device_find(core, failure->device[0].id.text) : NULL;
    bool repeats = device && job_avoids(core, job, device, AVOID_FAILURES);
    return job->plan.state == PLAN_PREPARING && (repeats || strcmp(failure->code, "peer") == 0 ||
                                                 strcmp(failure->code, "internal") == 0);
}

/* Whether the job is to blame by now. */
static bool count_failure(struct core *core, struct job_slot *job, const struct failure *failure)
{
    bool advanced = job->reached_step > job->furthest_step;
    if (advanced) {
        failures_progress(job, job->reached_step);
    }
    links_count(core, job, failure->cause == FAILURE_LINK); /* this one begins the next row */
    avoid_devices(core, job, failure, advanced);
    if (job->reached_step > job->plan.resume_version) {
        stuck_forget(job);
    } else if (blames_start(core, job, failure)) {
        stuck_count(job);
    }
    if (failure->cause == FAILURE_DEADLINE && job->plan.state == PLAN_PREPARING &&
        job->late_shift < LATE_SHIFT_MAX) {
        job->late_shift++; /* a slow device must not be late for ever */
    }
    return count_fault(job, failure);
}

/* ---- what comes next ---- */

/* The devices that have just come back tell what they hold, then the job goes on. */
static void gather(struct core *core, struct job_slot *job)
{
    plan_close(core, job, job->plan.resume_version);
    progress_halt(job);
    job_changed(core, job);
    job->waiting_reason = PLAN_RESTARTED;
    core->schedule = true;
    generation_gather(core, job, core->now_ms + core->config.lease_ms,
                      "asks its devices what they hold");
}

/* The present plan ends and the next one is put off. What is held stays held. With code
 * device_failed the next one is tried as soon as the job can do without the devices that failed. */
static void put_off(struct core *core, struct job_slot *job, int reason, const char *code,
                    int64_t pause_ms, const char *text)
{
    const struct absent nobody = {0};
    int64_t start = recovery_start(core, job, &nobody, &job->cut);
    if (plan_active(job)) {
        plan_close(core, job, start);
    }
    (void)progress_go_back(job, start);
    job_changed(core, job);
    job->waiting_reason = reason;
    job->gather_ms = NEVER;
    job->retry_ms = core->now_ms + pause_ms;
    job->retry_early = strcmp(code, "device_failed") == 0;
    core->schedule = true;
    if (job->job.state == JOB_PAUSING || job->job.state == JOB_QUEUED) {
        return;
    }
    job_set_state(core, job, JOB_WAITING_FOR_DEVICES, code,
                  "%.170s; step %" PRId64 " is tried again in %.1f s", text, start,
                  (double)pause_ms / 1000);
}

static int64_t put_off_ms(const struct core *core, struct job_slot *job)
{
    int shift = job->put_offs < PUT_OFF_SHIFT_MAX ? job->put_offs : PUT_OFF_SHIFT_MAX;
    int64_t ms = core->config.lease_ms << shift;
    job->put_offs++;
    return ms < PUT_OFF_MS_MAX ? ms : PUT_OFF_MS_MAX;
}

bool generation_waits(struct core *core, struct job_slot *job)
{
    if (job->retry_ms != NEVER && job->retry_ms <= core->now_ms) {
        return false; /* it has waited */
    }
    if (job->retry_ms == NEVER) {
        put_off(core, job, PLAN_PREPARE_FAILED, "device_failed", put_off_ms(core, job),
                job->plan.failure);
    }
    return true;
}

/* Nothing is lost by the end of a job that has never made a step, and somebody waits for the
 * answer. */
static bool is_hopeless(const struct job_slot *job, const struct failure *failure)
{
    return failure->cause == FAILURE_ERROR && failure->device_count > 0 &&
           job->furthest_step == 0 && job->job.version == 0 && strcmp(failure->code, "peer") != 0;
}

void generation_failed(struct core *core, struct job_slot *job)
{
    const struct failure failure = job->failure;
    job->failure.cause = FAILURE_NONE;
    if (job->ended || !plan_active(job)) {
        return;
    }
    int reason = failure_reason(job, failure.cause);
    bool guilty = count_failure(core, job, &failure);
    job->stay = failure.cause == FAILURE_LINK && links_can_stay(core, job);
    incident_failed(core, job, &failure);
    memcpy(job->plan.failure, failure.text, MESSAGE_SIZE);
    plan_changed(core, job);
    act_publish(core, "generation_failed", job->plan.id.text, "generation %" PRId64 ": %s",
                job->plan.generation, failure.text);
    if (guilty && is_hopeless(job, &failure)) {
        job_end(core, job, JOB_FAILED, "no_progress", failure.text);
        return;
    }
    wish_drop(core, job);
    int64_t pause_ms = failure.cause == FAILURE_LINK ? links_pause_ms(core, job) : 0;
    if (recovery_must_gather(core, job)) {
        gather(core, job);
    } else if (pause_ms > 0) {
        put_off(core, job, PLAN_LINK, "link", pause_ms, failure.text);
    } else if (guilty) {
        put_off(core, job, reason, "no_progress", put_off_ms(core, job), failure.text);
    } else {
        (void)generation_begin(core, job, reason);
    }
}

/* ---- what is due by the clock ---- */

void generation_tick(struct core *core, struct job_slot *job)
{
    if (job->export_ms <= core->now_ms) {
        exports_last(core, job);
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
        join_watch(core, job);
        job_mark(core, job);
    }
    if (job->deadline_ms <= core->now_ms) {
        job->deadline_ms = NEVER;
        job_mark(core, job);
        fail_late(core, job);
    }
}
