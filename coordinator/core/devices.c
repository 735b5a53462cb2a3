#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/core_private.h"

bool device_online(const struct device_slot *device)
{
    return device->device.state == DEVICE_ONLINE;
}

bool device_reachable(const struct device_slot *device)
{
    return device->device.state == DEVICE_ONLINE || device->device.state == DEVICE_SUSPECT;
}

bool device_ready(const struct device_slot *device)
{
    return device_online(device) && !device->silent && !device->device.cordoned;
}

bool device_needed(const struct device_slot *device)
{
    return device->job &&
           (job_phase(device->job) != PHASE_FINISHED || center_owes(device->job, device->stage));
}

/* A place in the table that an enrolment took and nothing came of: no plan had the device, it holds
 * nothing, and nobody cordoned it. */
static bool is_forgettable(const struct device_slot *device)
{
    return device->device.untried && !device->device.cordoned && device->holding_count == 0;
}

/* When its silence began, as far as it is its own. */
static int64_t silent_from_ms(const struct core *core, const struct device_slot *device)
{
    return device->seen_ms > core->deaf_ms ? device->seen_ms : core->deaf_ms;
}

static int64_t lease_due_ms(const struct core *core, const struct device_slot *device)
{
    int64_t from_ms = silent_from_ms(core, device);
    switch ((enum device_state)device->device.state) {
    case DEVICE_ONLINE: return from_ms + suspect_ms(core);
    case DEVICE_SUSPECT:
    case DEVICE_DISCONNECTED: return from_ms + core->config.lease_ms;
    case DEVICE_LOST: return is_forgettable(device) ? device->lost_ms + DEVICE_FORGET_MS : NEVER;
    case DEVICE_PENDING:
    case DEVICE_REJECTED:
    case DEVICE_REMOVED: break;
    }
    return NEVER;
}

int64_t device_due_ms(const struct core *core, const struct device_slot *device)
{
    int64_t lease = lease_due_ms(core, device), suspicion = suspicion_due_ms(device);
    return lease < suspicion ? lease : suspicion;
}

void device_time(struct core *core, struct device_slot *device)
{
    core->device_due_ms[table_slot(&core->devices, device)] = device_due_ms(core, device);
}

static void set_state(struct core *core, struct device_slot *device, int state, const char *event)
{
    device->device.state = state;
    device_changed(core, device);
    act_publish(core, event, device->device.id.text, "device '%s' is %s", device->device.name,
                device_state_names[state]);
}

void device_seen(struct core *core, struct device_slot *device)
{
    device->seen_ms = core->now_ms;
    device->device.last_seen_ms = core->wall_ms;
    if (!device_online(device)) {
        set_state(core, device, DEVICE_ONLINE, "device_online");
        core->schedule = core->joinable = true;
    }
    device_time(core, device);
}

void handle_contact(struct core *core, const struct event *event)
{
    struct device_slot *device = device_find(core, event->contact.device.text);
    if (device) {
        device_seen(core, device);
    }
    act_reply(core, 204, OBJECT_NOTHING, NULL);
}

/* Whether somebody who is not ready yet takes units from the device. */
static bool is_source(const struct job_slot *job, const struct device_slot *device)
{
    if (!job->peer_sources || job_phase(job) != PHASE_PREPARE) {
        return false;
    }
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        const struct plan_stage *stage = &job->plan.stage[s];
        for (int64_t u = stage->first; !job->report[s].ready && u < stage->end; u++) {
            if (source_is(job, u, device)) {
                return true;
            }
        }
    }
    return false;
}

/* The jobs that it works for, or that take units from it. */
static void fail_its_jobs(struct core *core, const struct device_slot *device, struct blame blame,
                          const char *how)
{
    if (device->job && device_needed(device)) {
        generation_fail(core, device->job, blame, "device '%s' %s", device->device.name, how);
    }
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = job_slot_at(core, i);
        if (job != device->job && is_source(job, device)) {
            generation_fail(core, job, blame, "device '%s', which has units to hand over, %s",
                            device->device.name, how);
        }
    }
}

static void device_lost(struct core *core, struct device_slot *device)
{
    const struct blame blame = {
        .cause = FAILURE_DEVICE_LOST, .device = device, .since_ms = device_alive_ms(core, device)};
    fail_its_jobs(core, device, blame, "is lost");
    set_state(core, device, DEVICE_LOST, "device_lost");
    device->lost_ms = core->now_ms;
    core->schedule = true; /* those who wait have to say what they wait for */
    suspicion_clear(device);
}

void device_disconnected(struct core *core, struct device_slot *device)
{
    const struct blame blame = {
        .cause = FAILURE_DEVICE_LOST, .device = device, .since_ms = device_alive_ms(core, device)};
    fail_its_jobs(core, device, blame, "is silent and its connections broke");
    set_state(core, device, DEVICE_DISCONNECTED, "device_disconnected");
}

/* The slot is taken out of the table at the end of the step. */
static void remove_device(struct core *core, struct device_slot *device, const char *why)
{
    holdings_clear(core, device);
    device->device.state = DEVICE_REMOVED;
    device_changed(core, device);
    device_touch(core, device);
    act_forget(core, OBJECT_DEVICE, device->device.id.text, 0);
    act_publish(core, "device_removed", device->device.id.text, "device '%s' is removed%s",
                device->device.name, why);
}

void devices_tick(struct core *core)
{
    /* What does not fit into this turn's actions is still due in the next. */
    for (size_t i = 0; i < core->devices.count && core->actions->count < ACTIONS_MAX / 8; i++) {
        struct device_slot *device = device_slot_at(core, i);
        if (core->device_due_ms[table_slot(&core->devices, device)] > core->now_ms) {
            continue;
        }
        if (lease_due_ms(core, device) > core->now_ms) {
            suspicion_tick(core, device);
        } else if (device->device.state == DEVICE_LOST) {
            remove_device(core, device, ": it was lost and had never worked");
        } else if (core->now_ms - silent_from_ms(core, device) >= core->config.lease_ms) {
            device_lost(core, device);
        } else {
            set_state(core, device, DEVICE_SUSPECT, "device_suspect");
        }
    }
}

void devices_spare(struct core *core, int64_t ms)
{
    int64_t deaf_ms = core->now_ms + ms - core->config.lease_ms;
    core->deaf_ms = deaf_ms > core->deaf_ms ? deaf_ms : core->deaf_ms;
}

/* Whoever could not be heard for late_ms repeats its calls after about as long again, or after
 * CALL_RETRY_MS_MAX. */
void devices_late(struct core *core, int64_t late_ms)
{
    int64_t spare_ms = 2 * (late_ms + core->config.heartbeat_ms), first_ms = first_lease_ms(core);
    spare_ms = spare_ms < first_ms ? spare_ms : first_ms;
    devices_spare(core, spare_ms);
    core->thawed_ms = core->now_ms + spare_ms;
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *device = device_slot_at(core, i);
        int64_t seen_ms = device->seen_ms + late_ms;
        device->seen_ms = seen_ms < core->now_ms ? seen_ms : core->now_ms;
        device->lost_ms += late_ms;
        device->claim_ms += late_ms;
        device->beat_ms += late_ms;
        suspicion_late(core, device);
        device_time(core, device);
    }
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = job_slot_at(core, i);
        int64_t *const deadline[] = {&job->deadline_ms,
                                     &job->suspicion_ms,
                                     &job->gather_ms,
                                     &job->retry_ms,
                                     &job->export_ms,
                                     &job->step_due_ms,
                                     &job->join_ms,
                                     &job->round[ROUND_OF_NEIGHBOR].deadline_ms,
                                     &job->round[ROUND_OF_CENTER].deadline_ms};
        int64_t soon_ms = core->now_ms + 2 * core->config.heartbeat_ms;
        for (size_t k = 0; k < sizeof(deadline) / sizeof(deadline[0]); k++) {
            *deadline[k] += *deadline[k] == NEVER ? 0 : late_ms;
        }
        job->step_due_ms = job->step_due_ms < soon_ms
                               ? soon_ms
                               : job->step_due_ms; /* nobody was heard meanwhile */
        job_mark(core, job);
    }
}

void device_assign(struct core *core, struct device_slot *device, struct job_slot *job,
                   size_t stage)
{
    if (device->job != job) {
        ASSERT(!device->job);
        device->job = job;
        memcpy(device->device.job, job->job.id.text, ID_SIZE);
        device->device.untried = false;
        device_changed(core, device);
    }
    device->stage = stage;
    device->trouble_count = 0; /* of the generation before */
    device->busy_ms = 0;
    device_touch(core, device);
}

void device_release(struct core *core, struct device_slot *device)
{
    device->job = NULL;
    device->trouble_count = 0;
    memset(device->device.job, 0, ID_SIZE);
    device_changed(core, device);
    device_touch(core, device);
    core->schedule = core->joinable = true;
}

/* ---- enrolment ---- */

static struct device_slot *find_key(const struct core *core, const char *public_key)
{
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *device = device_slot_at(core, i);
        if (strcmp(device->device.public_key, public_key) == 0) {
            return device;
        }
    }
    return NULL;
}

static struct device_slot *add_device(struct core *core, const struct enroll_request *request)
{
    struct device_id id;
    core_id(core, id.text, "dev_");
    struct device_slot *device = table_add(&core->devices, id.text);
    if (!device) {
        return NULL;
    }
    device->device.id = id;
    device->device.state = DEVICE_ONLINE;
    device->device.created_ms = core->wall_ms;
    device->device.untried = true;
    device->beat_ms = core->now_ms;
    device->assignment_revision = core->revision_base;
    suspicion_clear(device);
    memcpy(device->device.public_key, request->public_key, SHA256_SIZE);
    return device;
}

/* A new boot: what was held in memory is gone, and so is what it did for a job. */
static void take_boot(struct core *core, struct device_slot *device, const char *boot)
{
    const struct blame blame = {
        .cause = FAILURE_RESTARTED, .device = device, .since_ms = device_alive_ms(core, device)};
    memcpy(device->device.boot, boot, ID_SIZE);
    holdings_clear(core, device);
    device->holdings_known = false;
    suspicion_clear(device);
    device_touch(core, device);
    if (device->job && !device_needed(device)) {
        device_release(core, device);
    }
    fail_its_jobs(core, device, blame, "has started anew");
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

void handle_enroll(struct core *core, const struct event *event)
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
                    "there are %zu devices, the most this coordinator keeps", core->devices.max);
        return;
    }
    bool same_boot = known && strcmp(device->device.boot, request->boot) == 0;
    if (known && !same_boot && !identity_takes(core, device, request->boot)) {
        return;
    }
    bool moved = known && strcmp(device->device.address, request->address) != 0;
    take_request(&device->device, request);
    if (!same_boot) {
        take_boot(core, device, request->boot);
    }
    if (moved && device->job) {
        job_touch(core, device->job);
    }
    device_changed(core, device);
    device_seen(core, device);
    core->schedule = core->joinable = true;
    if (!known) {
        act_publish(core, "device_enrolled", device->device.id.text, "device '%s' is enrolled",
                    device->device.name);
    }
    core->enroll_reply = (struct enroll_reply){.device = device->device.id,
                                               .protocol = PROTOCOL_VERSION,
                                               .interval_ms = core->config.heartbeat_ms};
    act_reply(core, known ? 200 : 201, OBJECT_ENROLL_REPLY, &core->enroll_reply);
}

/* ---- verbs ---- */

/* Whether a plan names the device: as a source of those who prepare, or as a neighbour of those who
 * still bring their units into the center although it has left. */
static bool device_named(const struct core *core, const struct device_slot *device)
{
    for (size_t i = 0; i < core->jobs.count; i++) {
        const struct job_slot *job = job_slot_at(core, i);
        if ((plan_active(job) && plan_has(&job->plan, device)) || is_source(job, device)) {
            return true;
        }
    }
    return false;
}

static void set_cordon(struct core *core, struct device_slot *device, bool cordoned)
{
    if (device->device.cordoned != cordoned) {
        device->device.cordoned = cordoned;
        device->lost_ms = core->now_ms; /* a person has just looked at it */
        device_changed(core, device);
        core->schedule = core->joinable = true;
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
        act_problem(core, PROBLEM_WRONG_STATE, "device '%s' works for %s", device->device.name,
                    device->job->job.id.text);
        return;
    }
    if (device_named(core, device)) {
        act_problem(core, PROBLEM_WRONG_STATE, "device '%s' still hands over what it has to others",
                    device->device.name);
        return;
    }
    remove_device(core, device, "");
    act_reply(core, 204, OBJECT_NOTHING, NULL);
}

void handle_device_verb(struct core *core, const struct event *event)
{
    const struct event_device_verb *verb = &event->device_verb;
    struct device_slot *device = device_find(core, verb->device.text);
    if (!device) {
        act_problem(core, PROBLEM_UNKNOWN_DEVICE, "no device '%s'", verb->device.text);
        return;
    }
    if (verb->if_revision != 0 && verb->if_revision != device->device.revision) {
        act_problem(core, PROBLEM_REVISION_MISMATCH,
                    "device '%s' has revision %" PRId64 ", not %" PRId64, device->device.name,
                    device->device.revision, verb->if_revision);
        return;
    }
    switch (verb->verb) {
    case DEVICE_CORDON: set_cordon(core, device, true); break;
    case DEVICE_UNCORDON: set_cordon(core, device, false); break;
    case DEVICE_DELETE: delete_device(core, device); break;
    }
}
