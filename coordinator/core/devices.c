#include "coordinator/core/devices.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/core/act.h"
#include "coordinator/core/center.h"
#include "coordinator/core/challenge.h"
#include "coordinator/core/deadlines.h"
#include "coordinator/core/device.h"
#include "coordinator/core/drain.h"
#include "coordinator/core/drift.h"
#include "coordinator/core/holdings.h"
#include "coordinator/core/identity.h"
#include "coordinator/core/ids.h"
#include "coordinator/core/lease.h"
#include "coordinator/core/mark.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/sources.h"
#include "coordinator/core/state.h"
#include "coordinator/core/states.h"
#include "coordinator/core/suspicion.h"

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
        } else if (core->now_ms - lease_silent_from_ms(core, device) >= core->config.lease_ms) {
            lease_lost(core, device);
        } else {
            lease_set_state(core, device, DEVICE_SUSPECT, "device_suspect");
        }
    }
}

/* A device that was not heard for late_ms repeats its calls after about the same time, or after
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
                : job->timer_ms[TIMER_STEP]; /* no device was heard meanwhile */
        mark_job(core, job);
    }
}

/* ---- enrolment ---- */

static struct device_slot *find_key(const struct core *core, const char *public_key)
{
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *device = slots_device_at(core, i);
        if (strcmp(device->device.public_key, public_key) == 0) {
            return device;
        }
    }
    return NULL;
}

static struct device_slot *add_device(struct core *core, const struct enroll_request *request)
{
    struct device_id id;
    ids_new(core, id.text, "dev_");
    struct device_slot *device = table_add(&core->devices, id.text);
    if (!device) {
        return NULL;
    }
    device->device.id = id;
    device->device.state = DEVICE_ONLINE;
    device->device.created_ms = core->wall_ms;
    device->device.untried = true;
    device->lease.beat_ms = core->now_ms;
    device->assignment_revision = core->revision_base;
    challenge_clear(device);
    traffic_forget(core, device);
    memcpy(device->device.public_key, request->public_key, SHA256_SIZE);
    return device;
}

/* A new boot: the device has lost its memory and its work for a job. */
static void take_boot(struct core *core, struct device_slot *device, const char *boot)
{
    const struct blame blame = {
        .cause = FAILURE_RESTARTED, .device = device, .since_ms = challenge_alive_ms(core, device)};
    memcpy(device->device.boot, boot, ID_SIZE);
    holdings_clear(core, device);
    device->holdings.known = false;
    challenge_clear(device);
    drain_take_leaving(core, device, false);
    mark_device_touched(core, device);
    if (device->job && !center_needs_device(device)) {
        device_release(core, device);
    }
    lease_fail_jobs(core, device, blame, "restarted");
}

static void take_request(struct device *device, const struct enroll_request *request)
{
    memcpy(device->name, request->name, sizeof(device->name));
    memcpy(device->address, request->address, sizeof(device->address));
    memcpy(device->numeric_class, request->numeric_class, sizeof(device->numeric_class));
    device->protocol = request->protocol;
    device->inventory = request->inventory;
    device->probe = request->probe;
    memcpy(device->label, request->label, sizeof(device->label));
    device->label_count = request->label_count;
}

void devices_on_enroll(struct core *core, const struct event *event)
{
    const struct enroll_request *request = event->enroll.request;
    if (request->protocol < PROTOCOL_VERSION_MIN || request->protocol > PROTOCOL_VERSION) {
        act_problem(core, PROBLEM_PROTOCOL_VERSION,
                    "the agent speaks protocol %" PRId64
                    ", this coordinator %d to %d: upgrade the %s",
                    request->protocol, PROTOCOL_VERSION_MIN, PROTOCOL_VERSION,
                    request->protocol < PROTOCOL_VERSION_MIN ? "agent" : "coordinator");
        return;
    }
    struct device_slot *device = find_key(core, request->public_key);
    bool known = device != NULL;
    if (!known) {
        device = add_device(core, request);
    }
    if (!device) {
        act_problem(core, PROBLEM_TOO_MANY,
                    "the coordinator has its maximum of %zu devices; delete a lost one first",
                    core->devices.max);
        return;
    }
    bool same_boot = known && strcmp(device->device.boot, request->boot) == 0;
    if (known && !same_boot && !identity_takes(core, device, request->boot)) {
        return;
    }
    bool moved = known && strcmp(device->device.address, request->address) != 0;
    take_request(&device->device, request);
    capacity_enrolled(core, device);
    if (!same_boot) {
        take_boot(core, device, request->boot);
    }
    if (moved && device->job) {
        holdings_touch_job(core, device->job);
    }
    mark_device_changed(core, device);
    lease_renew(core, device);
    core->schedule = core->joinable = true;
    if (!known) {
        act_publish(core, "device_enrolled", device->device.id.text, "device '%s' is enrolled",
                    device->device.name);
    }
    core->enroll_reply = (struct enroll_reply){.device = device->device.id,
                                               .protocol = PROTOCOL_VERSION,
                                               .interval_ms = core->config.heartbeat_ms};
    act_reply_agent(core, known ? 200 : 201, OBJECT_ENROLL_REPLY, &core->enroll_reply,
                    request->protocol);
}

/* ---- verbs ---- */

/* Whether a plan names the device: as a source of preparing devices, or as a neighbour of devices
 * that still upload units to the center after it has left. */
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

static void set_cordon(struct core *core, struct device_slot *device, bool cordoned)
{
    if (device->device.cordoned != cordoned) {
        device->device.cordoned = cordoned;
        device->lease.lost_ms = core->now_ms; /* a person has just looked at it */
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
    case DEVICE_CORDON: set_cordon(core, device, true); break;
    case DEVICE_UNCORDON: set_cordon(core, device, false); break;
    case DEVICE_DRAIN: drain_set(core, device, true); break;
    case DEVICE_UNDRAIN: drain_set(core, device, false); break;
    case DEVICE_DELETE: delete_device(core, device); break;
    }
}
