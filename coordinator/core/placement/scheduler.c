/* Waiting jobs start by priority, then age. A job that waits for busy devices reserves the free
 * ones, so that younger jobs do not starve it. */
#include "coordinator/core/placement/scheduler.h"

#include <string.h>

#include "coordinator/core/failures/recovery.h"
#include "coordinator/core/generation/generations.h"
#include "coordinator/core/generation/waiting.h"
#include "coordinator/core/placement/asking.h"
#include "coordinator/core/placement/candidates.h"
#include "coordinator/core/placement/matching.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

/* Most plans in one step. The others wait for the next step, so that heartbeats are not delayed.
 * They also wait if the searches of the step have used up their work. */
#define PLANS_PER_STEP 16

static bool is_full(const struct core *core, size_t plans)
{
    return plans == PLANS_PER_STEP || (plans > 0 && asking_spent(core)) || !act_room(core);
}

static bool waits(const struct job_slot *job)
{
    return !job->mark.ended &&
           (states_waits_in_queue(job) || job->job.state == JOB_WAITING_FOR_DEVICES ||
            job->timer_ms[TIMER_GATHER] != NEVER || job->timer_ms[TIMER_RETRY] != NEVER);
}

static bool goes_before(const struct job_slot *a, const struct job_slot *b)
{
    if (a->job.spec.priority != b->job.spec.priority) {
        return a->job.spec.priority > b->job.spec.priority;
    }
    if (a->job.created_ms != b->job.created_ms) {
        return a->job.created_ms < b->job.created_ms;
    }
    return strcmp(a->job.id.text, b->job.id.text) < 0;
}

static size_t list_waiting(struct core *core)
{
    size_t count = 0;
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = slots_job_at(core, i);
        size_t at = count;
        if (!waits(job)) {
            continue;
        }
        while (at > 0 && goes_before(job, core->queue[at - 1])) {
            core->queue[at] = core->queue[at - 1];
            at--;
        }
        core->queue[at] = job;
        count++;
    }
    return count;
}

/* Whether the job still waits for the holdings of its devices, which have its state. */
static bool still_gathering(const struct core *core, const struct job_slot *job)
{
    if (job->timer_ms[TIMER_GATHER] == NEVER || core->now_ms >= job->timer_ms[TIMER_GATHER]) {
        return false;
    }
    for (size_t i = 0; i < core->devices.count; i++) {
        const struct device_slot *device = slots_device_at(core, i);
        if (device_reachable(device) && !device->holdings.known) {
            return true;
        }
    }
    return false;
}

/* The next generation is delayed. */
static bool backs_off(const struct core *core, const struct job_slot *job)
{
    return job->timer_ms[TIMER_RETRY] != NEVER && core->now_ms < job->timer_ms[TIMER_RETRY] &&
           !job->waiting.early;
}

/* A new device may hold the versions for which the job has waited. */
static bool must_ask_first(struct core *core, const struct job_slot *job)
{
    return job->timer_ms[TIMER_GATHER] == NEVER && job->job.state == JOB_WAITING_FOR_DEVICES &&
           recovery_must_gather(core, job);
}

static int reason_of(const struct job_slot *job)
{
    if (job->job.state == JOB_WAITING_FOR_DEVICES) {
        return job->waiting.reason;
    }
    if (job->timer_ms[TIMER_GATHER] != NEVER || job->timer_ms[TIMER_RETRY] != NEVER) {
        return job->timer_ms[TIMER_RETRY] != NEVER ? job->waiting.reason : PLAN_RESTARTED;
    }
    return job->job.generation == 0 ? PLAN_FIRST : PLAN_RESUMED;
}

static void reserve(struct core *core, const struct job_slot *job)
{
    struct placement_request request = {
        .spec = &job->job.spec, .model = job->model, .job = job, .candidates = CANDIDATES_ONLINE};
    if (candidates_list(core, &request) < (size_t)job->job.spec.devices_min) {
        return; /* the job waits for devices that are not online */
    }
    request.candidates = CANDIDATES_FREE;
    (void)candidates_list(core, &request);
    for (size_t i = 0; i < core->candidate_count; i++) {
        core->candidate[i]->reserved = core->pass;
    }
}

/* No device is free, and the job's message already says so. */
static bool in_vain(const struct core *core, const struct job_slot *job)
{
    return !core->any_free && core->ready == job->scheduled.ready &&
           job->timer_ms[TIMER_GATHER] == NEVER && job->timer_ms[TIMER_RETRY] == NEVER &&
           strcmp(job->job.state_reason, "waiting_for_devices") == 0;
}

bool scheduler_any_free(const struct core *core)
{
    for (size_t i = 0; i < core->devices.count; i++) {
        const struct device_slot *device = slots_device_at(core, i);
        if (device_ready(device) && !device->job) {
            return true;
        }
    }
    return false;
}

static size_t count_ready(const struct core *core)
{
    size_t count = 0;
    for (size_t i = 0; i < core->devices.count; i++) {
        count += device_ready(slots_device_at(core, i));
    }
    return count;
}

/* The search for the first plan of a job, or the first after a pause, runs outside of the step.
 * Recovery from a failure cannot wait: its search runs within the step. */
static bool begin(struct core *core, struct job_slot *job)
{
    int reason = reason_of(job);
    return states_waits_in_queue(job) || job->asked.outside ? generations_ask(core, job, reason)
                                                            : generations_begin(core, job, reason);
}

/* Whether the question of a waiting job is open. The jobs after it may use only the devices that
 * its plan leaves free, so they wait for the answer. */
static bool waits_for_answer(const struct core *core)
{
    return core->asking.number != 0 && core->asking.in_pass;
}

void scheduler_planned(struct core *core, struct job_slot *job, int code, const char *text)
{
    core->in_pass = core->pass_open;
    if (!generations_planned(core, job, code, text) && waits(job)) {
        reserve(core, job);
    }
    core->in_pass = false;
}

void scheduler_run(struct core *core)
{
    size_t count, plans = 0;
    core->pass_waits = waits_for_answer(core);
    if (core->pass_waits) {
        return;
    }
    count = list_waiting(core);
    if (!core->pass_open) {
        core->schedule = false;
        core->pass_open = true;
        core->pass++;
    }
    core->any_free = scheduler_any_free(core);
    core->ready = count_ready(core);
    core->in_pass = true;
    for (size_t i = 0; i < count; i++) {
        struct job_slot *job = core->queue[i];
        if (job->scheduled.pass == core->pass || in_vain(core, job)) {
            continue;
        }
        if (is_full(core, plans)) {
            break;
        }
        job->scheduled.pass = core->pass;
        job->scheduled.ready = core->ready;
        if (must_ask_first(core, job)) {
            waiting_for_reports(core, job, core->config.lease_ms);
        }
        if (still_gathering(core, job) || backs_off(core, job)) {
            reserve(core, job);
            continue;
        }
        if (core->asking.number != 0 && (states_waits_in_queue(job) || job->asked.outside)) {
            job->scheduled.pass = core->pass - 1; /* another question must be answered first */
            core->pass_waits = true;
            break;
        }
        plans++;
        if (!begin(core, job) && waits(job)) {
            reserve(core, job);
        }
        if (waits_for_answer(core)) {
            core->pass_waits = true;
            break;
        }
    }
    core->in_pass = false;
    core->pass_open = core->pass_waits || is_full(core, plans);
}
