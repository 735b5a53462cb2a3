#include "coordinator/core/devices/devices.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/copies/sources.h"
#include "coordinator/core/failures/challenge.h"
#include "coordinator/core/failures/lease.h"
#include "coordinator/core/failures/suspicion.h"
#include "coordinator/core/generation/drain.h"
#include "coordinator/core/generation/drift.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/deadlines.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"

void devices_on_contact(struct core *core, const struct event *event)
{
    struct device_slot *device = slots_device(core, event->contact.device.text);
    if (device) {
        lease_renew(core, device);
    }
    act_reply(core, 204, OBJECT_NOTHING, NULL);
}

/* The slot is taken out of the table at the end of the step. */
static void remove_device(struct core *core, struct device_slot *device, const char *why)
{
    holdings_clear(core, device);
    device->device.state = DEVICE_REMOVED;
    core->data_changed = true;
    mark_device_changed(core, device);
    mark_device_touched(core, device);
    act_forget(core, OBJECT_DEVICE, device->device.id.text, 0);
    act_publish(core, "device_removed", device->device.id.text, "device '%s' was removed%s",
                device->device.name, why);
}

void devices_tick(struct core *core)
{
    /* Challenges that do not fit into this turn's actions stay due for the next. */
    for (size_t i = 0; i < core->devices.count && core->actions->count < ACTIONS_MAX / 8; i++) {
        struct device_slot *device = slots_device_at(core, i);
        if (core->device_due_ms[table_slot(&core->devices, device)] > core->now_ms) {
            continue;
        }
        if (lease_end_ms(core, device) > core->now_ms) {
            suspicion_tick(core, device);
        } else if (device->device.state == DEVICE_LOST) {
            remove_device(core, device, ": it was lost and never worked for a job");
        } else if (device->device.state == DEVICE_JOINED) {
            remove_device(core, device, ": its agent never started");
        } else if (core->now_ms - lease_silent_from_ms(core, device) >= core->config.lease_ms) {
            lease_lost(core, device);
        } else {
            lease_set_state(core, device, DEVICE_SUSPECT, "device_suspect");
        }
    }
}

/* A device whose calls failed for late_ms repeats them after about the same time, or after
 * CALL_RETRY_MS_MAX. */
void devices_late(struct core *core, int64_t late_ms)
{
    int64_t spare_ms = 2 * (late_ms + core->config.heartbeat_ms),
            first_ms = deadlines_first_lease_ms(core);
    spare_ms = spare_ms < first_ms ? spare_ms : first_ms;
    lease_spare(core, spare_ms);
    core->thawed_ms = core->now_ms + spare_ms;
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *device = slots_device_at(core, i);
        int64_t seen_ms = device->lease.seen_ms + late_ms;
        device->lease.seen_ms = seen_ms < core->now_ms ? seen_ms : core->now_ms;
        device->lease.lost_ms += late_ms;
        device->identity.claim_ms += late_ms;
        device->lease.beat_ms += late_ms;
        challenge_late(core, device);
        lease_time(core, device);
    }
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = slots_job_at(core, i);
        int64_t soon_ms = core->now_ms + 2 * core->config.heartbeat_ms;
        timers_shift(job, late_ms);
        job->timer_ms[TIMER_STEP] =
            job->timer_ms[TIMER_STEP] < soon_ms
                ? soon_ms
                : job->timer_ms[TIMER_STEP]; /* the coordinator heard no device in the meantime */
        mark_job(core, job);
    }
}

/* ---- verbs ---- */

/* Whether a plan names the device: as a source of preparing devices, or as a neighbour of devices
 * that still upload units to the center after the device has left. */
static bool device_named(const struct core *core, const struct device_slot *device)
{
    for (size_t i = 0; i < core->jobs.count; i++) {
        const struct job_slot *job = slots_job_at(core, i);
        if ((states_plan_active(job) && states_plan_has(&job->plan, device)) ||
            sources_serves(job, device)) {
            return true;
        }
    }
    return false;
}

static void accept(struct core *core, struct device_slot *device)
{
    if (device->device.pending) {
        device->device.pending = false;
        mark_device_changed(core, device);
        core->schedule = core->joinable = true;
        act_publish(core, "device_accepted", device->device.id.text,
                    "device '%s' is accepted: plans may use it", device->device.name);
    }
    act_reply(core, 202, OBJECT_DEVICE, &device->device);
}

/* From now on the user's name holds, whatever name the agent reports. */
static void rename_device(struct core *core, struct device_slot *device, const char *name)
{
    for (size_t i = 0; i < core->devices.count; i++) {
        const struct device_slot *other = slots_device_at(core, i);
        if (other != device && strcmp(other->device.name, name) == 0) {
            act_problem(core, PROBLEM_NAME_TAKEN, "%s has the name '%s'; take another one",
                        other->device.id.text, name);
            return;
        }
    }
    if (!device->device.renamed || strcmp(device->device.name, name) != 0) {
        act_publish(core, "device_renamed", device->device.id.text,
                    "device '%s' has the name '%s' now", device->device.name, name);
        text_set(device->device.name, sizeof(device->device.name), "%s", name);
        device->device.renamed = true;
        mark_device_changed(core, device);
    }
    act_reply(core, 200, OBJECT_DEVICE, &device->device);
}

static void set_cordon(struct core *core, struct device_slot *device, bool cordoned)
{
    if (device->device.cordoned != cordoned) {
        device->device.cordoned = cordoned;
        device->lease.lost_ms = core->now_ms; /* a user has just acted on it */
        mark_device_changed(core, device);
        core->schedule = core->joinable = true;
        if (cordoned && device->job) {
            drift_note(core, device->job, CHECK_DEVICE_CORDONED);
        }
        act_publish(core, cordoned ? "device_cordoned" : "device_uncordoned",
                    device->device.id.text,
                    cordoned ? "device '%s' takes no new work" : "device '%s' takes work again",
                    device->device.name);
    }
    act_reply(core, 202, OBJECT_DEVICE, &device->device);
}

static void delete_device(struct core *core, struct device_slot *device)
{
    if (device->job) {
        act_problem(core, PROBLEM_WRONG_STATE,
                    "device '%s' works for %s; drain it, or cancel the job", device->device.name,
                    device->job->job.id.text);
        return;
    }
    if (device_named(core, device)) {
        act_problem(core, PROBLEM_WRONG_STATE,
                    "device '%s' still sends units to other devices; retry when the job is running",
                    device->device.name);
        return;
    }
    remove_device(core, device, "");
    act_reply(core, 204, OBJECT_NOTHING, NULL);
}

void devices_on_verb(struct core *core, const struct event *event)
{
    const struct event_device_verb *verb = &event->device_verb;
    struct device_slot *device = slots_device(core, verb->device.text);
    if (!device) {
        act_problem(core, PROBLEM_UNKNOWN_DEVICE, "unknown device '%s'", verb->device.text);
        return;
    }
    if (verb->if_revision != 0 && verb->if_revision != device->device.revision) {
        act_problem(core, PROBLEM_REVISION_MISMATCH,
                    "device '%s' has revision %" PRId64 ", not %" PRId64 "; read it and retry",
                    device->device.name, device->device.revision, verb->if_revision);
        return;
    }
    switch (verb->verb) {
    case DEVICE_ACCEPT: accept(core, device); break;
    case DEVICE_RENAME: rename_device(core, device, verb->name); break;
    case DEVICE_CORDON: set_cordon(core, device, true); break;
    case DEVICE_UNCORDON: set_cordon(core, device, false); break;
    case DEVICE_DRAIN: drain_set(core, device, true); break;
    case DEVICE_UNDRAIN: drain_set(core, device, false); break;
    case DEVICE_DELETE: delete_device(core, device); break;
    }
}
