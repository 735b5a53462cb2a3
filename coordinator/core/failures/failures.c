/* The one place that reacts to a failed generation. It charges the failure to devices or to the job
 * and opens the incident. Then it begins the next generation, delays it, or ends the job. A job
 * ends only if it never completed a step; after that, its versions are worth waiting for. */
#include "coordinator/core/failures/failures.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/exports.h"
#include "coordinator/core/copies/rounds.h"
#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/failures/charges.h"
#include "coordinator/core/failures/failure.h"
#include "coordinator/core/failures/incidents.h"
#include "coordinator/core/failures/links.h"
#include "coordinator/core/failures/recovery.h"
#include "coordinator/core/failures/stall.h"
#include "coordinator/core/failures/suspicion.h"
#include "coordinator/core/generation/ending.h"
#include "coordinator/core/generation/generations.h"
#include "coordinator/core/generation/waiting.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"

/* ---- noting a failure ---- */

/* Whether the phase waits for the stage's device. */
static bool is_late(const struct job_slot *job, size_t stage)
{
    switch (states_phase(job)) {
    case PHASE_PREPARE: return !job->report[stage].ready;
    case PHASE_RUN:
    case PHASE_STOPPING: return keepers_has(&job->plan.stage[stage]) && !job->report[stage].stopped;
    case PHASE_FINISHED: return center_owes(job, stage);
    case PHASE_IDLE:
    case PHASE_READY:
    case PHASE_STOPPED: break;
    }
    return false;
}

/* Blame the late devices. If all are late, the delay is no evidence against any of them. */
static void fail_late(struct core *core, struct job_slot *job)
{
    const struct blame blame = {.cause = FAILURE_DEADLINE, .since_ms = core->now_ms};
    const struct device_slot *late[STAGES_MAX];
    const char *phase = phase_names[states_phase(job)];
    int64_t seconds = (core->now_ms - job->generation.decided_ms) / 1000;
    const bool prepares = states_phase(job) == PHASE_PREPARE;
    const size_t waited = prepares ? job->plan.stage_count : keepers_count(&job->plan);
    size_t count = 0;
    if (job->failure.cause != FAILURE_NONE) {
        return; /* another failure was noted in this step and explains the delay */
    }
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        const struct device_slot *device =
            is_late(job, s) ? slots_stage_device(core, job, s) : NULL;
        if (device) {
            late[count++] = device;
        }
    }
    if (count == 0 || (count > 1 && count == waited)) {
        failure_note(core, job, blame, "phase %s timed out %" PRId64 " s after the plan was made",
                     phase, seconds);
        return;
    }
    char more[64] = "";
    if (count > 1) {
        text_set(more, sizeof(more), " and %zu more", count - 1);
    }
    failure_note(core, job, blame,
                 "phase %s timed out %" PRId64 " s after the plan was made: waited for device"
                 " '%.60s'%s",
                 phase, seconds, late[0]->device.name, more);
    for (size_t i = 0; i < count; i++) {
        failure_add(&job->failure, late[i]);
    }
}

/* ---- the cause ---- */

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

/* ---- after the failure ---- */

/* Whether the job can end: it never completed a step, so that nothing is lost, and its user waits
 * for the answer. */
static bool is_hopeless(const struct job_slot *job, const struct failure *failure)
{
    return failure->cause == FAILURE_ERROR && failure->device_count > 0 &&
           job->charges.furthest_step == 0 && job->job.version == 0 &&
           strcmp(failure->code, "peer") != 0;
}

/* Whether the plan can do without the devices that failed. */
static bool survives(const struct job_slot *job, const struct failure *failure)
{
    const struct absent absent = {.device = failure->gone, .count = failure->gone_count};
    return !failure->nobody && recovery_survives(job, &absent);
}

/* A restarted agent has no state of this generation. */
static void leave(const struct core *core, struct job_slot *job, const struct failure *failure)
{
    for (size_t s = 0; s < job->plan.stage_count && failure->cause == FAILURE_RESTARTED; s++) {
        const struct device_slot *device = slots_stage_device(core, job, s);
        job->report[s].left =
            job->report[s].left ||
            (device && id_equal(device->device.id.text, failure->device[0].id.text));
    }
}

/* The plan stops at the version of its lead, instead of failing. */
static void stop(struct core *core, struct job_slot *job, const struct failure *failure, int reason)
{
    if (job->job.state == JOB_RUNNING) {
        states_set(core, job, JOB_RECOVERING, plan_reason_names[reason], "stops: %.200s",
                   failure->text);
    }
    leave(core, job, failure);
    generations_stop(core, job, reason);
}

void failures_settle(struct core *core, struct job_slot *job)
{
    const struct failure failure = job->failure;
    job->failure.cause = FAILURE_NONE;
    if (job->mark.ended || !states_plan_active(job)) {
        return;
    }
    const bool survived = survives(job, &failure);
    if (survived && states_phase(job) == PHASE_STOPPING) {
        leave(core, job, &failure);
        return; /* the stop of the plan needs none of the failed devices */
    }
    int reason = failure_reason(job, failure.cause);
    bool guilty = charges_count(core, job, &failure);
    int64_t pause_ms = failure.cause == FAILURE_LINK ? links_pause_ms(core, job) : 0;
    job->stay = failure.cause == FAILURE_LINK && links_can_stay(core, job);
    incidents_failed(core, job, &failure);
    if (survived && !guilty && pause_ms == 0) {
        stop(core, job, &failure, reason);
        return;
    }
    memcpy(job->plan.failure, failure.text, MESSAGE_SIZE);
    mark_plan_changed(core, job);
    act_publish_job(core, "generation_failed", &job->job, job->plan.id.text,
                    "generation %" PRId64 ": %s", job->plan.generation, failure.text);
    if (guilty && is_hopeless(job, &failure)) {
        ending_job(core, job, JOB_FAILED, "no_progress", failure.text);
        return;
    }
    ending_drop_request(core, job);
    if (recovery_must_gather(core, job)) {
        waiting_ask(core, job);
    } else if (pause_ms > 0) {
        waiting_delay(core, job, PLAN_LINK, "link", pause_ms, failure.text);
    } else if (guilty) {
        waiting_delay(core, job, reason, "no_progress", waiting_delay_ms(core, job), failure.text);
    } else {
        (void)generations_begin(core, job, reason);
    }
}

/* ---- timers ---- */

static void wait_over(struct core *core, struct job_slot *job, enum timer timer)
{
    if (job->timer_ms[timer] <= core->now_ms && job->timer_ms[timer] > job->scheduled.over_ms) {
        job->timer_ms[timer] = job->scheduled.over_ms = core->now_ms;
        core->schedule = true;
        mark_job(core, job);
    }
}

void failures_tick(struct core *core, struct job_slot *job)
{
    if (job->timer_ms[TIMER_EXPORT] <= core->now_ms) {
        exports_last(core, job);
    }
    wait_over(core, job, TIMER_GATHER);
    wait_over(core, job, TIMER_RETRY);
    if (job->timer_ms[TIMER_SUSPICION] <= core->now_ms) {
        job->timer_ms[TIMER_SUSPICION] = NEVER;
        mark_job(core, job);
        suspicion_settle(core, job);
    }
    stall_tick(core, job);
    rounds_tick(core, job);
    if (job->timer_ms[TIMER_JOIN] <= core->now_ms) {
        avoidance_watch(core, job);
        mark_job(core, job);
    }
    if (job->timer_ms[TIMER_PHASE] <= core->now_ms) {
        job->timer_ms[TIMER_PHASE] = NEVER;
        mark_job(core, job);
        fail_late(core, job);
    }
}
