/* Draining moves the work first and then the copies. A running plan stops at a step boundary as
 * soon as other devices can do its work; until then it keeps the device. The search for the next
 * plan runs outside of the step, one job at a time. The device is drained when no plan has it and
 * no job relies on its copies, because the next round of copies replaces them. */
#include "coordinator/core/generation/drain.h"

#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/copies/rounds.h"
#include "coordinator/core/copies/sources.h"
#include "coordinator/core/failures/recovery.h"
#include "coordinator/core/generation/drift.h"
#include "coordinator/core/generation/generations.h"
#include "coordinator/core/placement/asking.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

/* ---- the flags ---- */

/* The event and the sentence to publish when a flag is cleared, and when it is set. */
struct flag_news {
    const char *event[2], *sentence[2]; /* the sentence after the device's name */
};

static const struct flag_news draining_news = {
    {"device_undrained", "device_draining"},
    {"takes work again", "is drained: plans leave it"},
};
static const struct flag_news leaving_news = {
    {"device_undrained", "device_leaving"},
    {"no longer announces that it leaves", "announces that it leaves: plans leave it"},
};

/* Return whether the flag changes. */
static bool set_flag(struct core *core, struct device_slot *device, bool *flag, bool value,
                     const struct flag_news *news)
{
    if (*flag == value) {
        return false;
    }
    *flag = value;
    device->device.drained = false;
    device->lease.lost_ms = core->now_ms; /* as for a cordon: a user has just acted on it */
    mark_device_changed(core, device);
    core->schedule = core->joinable = true;
    act_publish(core, news->event[value], device->device.id.text, "device '%s' %s",
                device->device.name, news->sentence[value]);
    return true;
}

void drain_set(struct core *core, struct device_slot *device, bool draining)
{
    if (set_flag(core, device, &device->device.draining, draining, &draining_news)) {
        drain_check(core, device);
    }
    act_reply(core, 202, OBJECT_DEVICE, &device->device);
}

void drain_take_leaving(struct core *core, struct device_slot *device, bool leaving)
{
    (void)set_flag(core, device, &device->device.leaving, leaving, &leaving_news);
}

/* ---- the copies ---- */

static bool holds_any(const struct core *core, const struct device_slot *device,
                      const struct job_slot *job)
{
    for (uint32_t i = device->holdings.first; i != 0; i = core->holding[i].next) {
        if (holdings_usable(job, &core->holding[i])) {
            return true;
        }
    }
    return false;
}

/* If the running plan has rounds of copies, the job relies on the device's copies until new ones
 * replace them, so that a drain does not leave a version with a single copy. Without rounds, the
 * job relies on them only if their loss would cost steps. A group that mixes and trains elsewhere
 * needs no copies: if it is lost, it begins with the newest average. */
static bool relies_on(const struct core *core, const struct job_slot *job,
                      const struct device_slot *device)
{
    const struct absent without = {.device = &device->device.id, .count = 1};
    struct cut cut;
    const bool mixes = states_phase(job) == PHASE_RUN && states_mixes(core, job);
    if (job->mark.ended || mixes || !holds_any(core, device, job)) {
        return false;
    }
    if (states_plan_active(job) &&
        (rounds_is_wanted(job, ROUND_OF_NEIGHBOR) || rounds_is_wanted(job, ROUND_OF_CENTER))) {
        return true;
    }
    return recovery_start(core, job, &without, &cut) <
           recovery_start(core, job, &device_all_present, &cut);
}

void drain_check(struct core *core, struct device_slot *device)
{
    if (!device_drains(device) || device->device.drained || device->job ||
        !device->holdings.known) {
        return;
    }
    for (size_t i = 0; i < core->jobs.count; i++) {
        const struct job_slot *job = slots_job_at(core, i);
        bool named = states_plan_active(job) && states_plan_has(&job->plan, device);
        if (named || sources_serves(job, device) || relies_on(core, job, device)) {
            return;
        }
    }
    device->device.drained = true;
    mark_device_changed(core, device);
    act_publish(core, "device_drained", device->device.id.text,
                "device '%s' has no work and no copy that a job relies on; it may be switched off",
                device->device.name);
}

/* ---- the work ---- */

/* A draining device of the plan, preferably one that leaves by itself. NULL: none. */
static const struct device_slot *find_draining(const struct core *core, const struct job_slot *job)
{
    const struct device_slot *found = NULL;
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        const struct device_slot *device = slots_stage_device(core, job, s);
        if (device && device_drains(device) && (!found || device->device.leaving)) {
            found = device;
        }
    }
    return found;
}

void drain_planned(struct core *core, struct job_slot *job, int code)
{
    const struct device_slot *device = find_draining(core, job);
    const bool replaced = code == 0 && core->planned->attempt.avoid != AVOID_NONE;
    if (!device || (!replaced && !device->device.leaving)) {
        return; /* the device continues to work until others can replace it */
    }
    if (replaced && !asking_holds(core, job, core->planned)) {
        job->drain_pass = 0; /* a device of the answer has left: ask again in this pass */
        return;
    }
    int reason = device->device.leaving ? PLAN_DEVICE_LEFT : PLAN_DRAINED;
    job->drift.trigger = CHECK_DEVICE_DRAINED;
    drift_checked(core, job, CHECK_REPLANS, 0, 0);
    states_set(core, job, JOB_REPLANNING, plan_reason_names[reason],
               "stops to resume without device '%.60s', which %s", device->device.name,
               device->device.leaving ? "leaves" : "is drained");
    if (replaced) {
        generations_stop_for(core, job, reason);
    } else {
        generations_stop(core, job, reason); /* the trained version is stored before it leaves */
    }
}

static bool may_leave(const struct core *core, const struct job_slot *job)
{
    return !job->mark.ended && job->job.state == JOB_RUNNING && states_phase(job) == PHASE_RUN &&
           job->failure.cause == FAILURE_NONE && find_draining(core, job);
}

void drain_run(struct core *core)
{
    if (core->asking.number != 0) {
        return; /* the pass continues after that answer */
    }
    if (!core->drain_open) {
        core->drain_due = false;
        core->drain_open = true;
        core->drain_pass++;
    }
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = slots_job_at(core, i);
        if (job->drain_pass == core->drain_pass || !may_leave(core, job)) {
            continue;
        }
        if (!act_room(core)) {
            return; /* the pass continues in the next step */
        }
        job->drain_pass = core->drain_pass;
        asking_open(core, job, ASKING_DRAIN);
        return;
    }
    core->drain_open = false;
}
