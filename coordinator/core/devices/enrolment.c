/* A device is its key. A join adds a key, or replaces the key of a device. An enrolment is the
 * start of an agent: its boot, address and measurements. The edge decides whether an unknown key
 * may enrol, because it knows whether the coordinator has tokens. */
#include "coordinator/core/devices/enrolment.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/devices/identity.h"
#include "coordinator/core/failures/challenge.h"
#include "coordinator/core/failures/lease.h"
#include "coordinator/core/generation/drain.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/ids.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"

static bool speaks(struct core *core, int64_t protocol)
{
    if (protocol >= PROTOCOL_VERSION_MIN && protocol <= PROTOCOL_VERSION) {
        return true;
    }
    act_problem(core, PROBLEM_PROTOCOL_VERSION,
                "the agent speaks protocol %" PRId64 ", this coordinator %d to %d: upgrade the %s",
                protocol, PROTOCOL_VERSION_MIN, PROTOCOL_VERSION,
                protocol < PROTOCOL_VERSION_MIN ? "agent" : "coordinator");
    return false;
}

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

/* NULL: a problem was answered. */
static struct device_slot *add_device(struct core *core, const char *public_key, int state)
{
    struct device_id id;
    ids_new(core, id.text, "dev_");
    struct device_slot *device = table_add(&core->devices, id.text);
    if (!device) {
        act_problem(core, PROBLEM_TOO_MANY,
                    "the coordinator has its maximum of %zu devices; delete a lost one first",
                    core->devices.max);
        return NULL;
    }
    device->device.id = id;
    device->device.state = state;
    device->device.created_ms = core->wall_ms;
    device->device.untried = true;
    device->lease.beat_ms = device->lease.lost_ms = core->now_ms;
    device->assignment_revision = core->revision_base;
    challenge_clear(device);
    traffic_forget(core, device);
    memcpy(device->device.public_key, public_key, SHA256_SIZE);
    return device;
}

/* A new boot: the device has lost its memory and its work for a job. */
static void take_boot(struct core *core, struct device_slot *device, const char *boot,
                      const char *how)
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
    lease_fail_jobs(core, device, blame, how);
}

/* ---- joining ---- */

/* With another key, the device's earlier agent has ended. The device keeps its name, whatever name
 * the new agent reports. */
static void replace_key(struct core *core, struct device_slot *device, const char *public_key)
{
    static const char no_boot[ID_SIZE] = "";
    memcpy(device->device.public_key, public_key, SHA256_SIZE);
    device->device.renamed = true;
    device->identity = (struct identity){.shared = false};
    take_boot(core, device, no_boot, "has another key now");
    device->device.state = DEVICE_JOINED;
    device->lease.lost_ms = core->now_ms;
    core->schedule = true;
    act_publish(core, "device_rekeyed", device->device.id.text,
                "device '%s' has another key; its agent has not started yet", device->device.name);
}

static struct device_slot *add_joined(struct core *core, const struct event_join *join)
{
    struct device_slot *device = add_device(core, join->request->public_key, DEVICE_JOINED);
    if (device) {
        memcpy(device->device.name, join->request->name, sizeof(device->device.name));
        device->device.protocol = join->request->protocol;
        device->device.pending = join->pending;
        act_publish(core, "device_joined", device->device.id.text, "device '%s' has joined%s",
                    device->device.name, join->pending ? " and waits to be accepted" : "");
    }
    return device;
}

/* The device to which the key belongs from now on; NULL: a problem was answered. */
static struct device_slot *take_key(struct core *core, const struct event_join *join,
                                    struct device_slot *owner)
{
    struct device_slot *named = slots_device(core, join->device.text);
    if (join->device.text[0] && !named) {
        act_problem(core, PROBLEM_UNKNOWN_DEVICE,
                    "device '%s', whose key the token replaces, was removed", join->device.text);
        return NULL;
    }
    if (owner && named && owner != named) {
        act_problem(core, PROBLEM_WRONG_STATE,
                    "this machine is device '%s' already, and the token is for device '%s': remove "
                    "the former first",
                    owner->device.name, named->device.name);
        return NULL;
    }
    if (!owner && named) {
        replace_key(core, named, join->request->public_key);
        return named;
    }
    return owner ? owner : add_joined(core, join);
}

void enrolment_on_join(struct core *core, const struct event *event)
{
    const struct event_join *join = &event->join;
    if (!speaks(core, join->request->protocol)) {
        return;
    }
    struct device_slot *owner = find_key(core, join->request->public_key);
    struct device_slot *device = take_key(core, join, owner);
    if (!device) {
        return;
    }
    /* A device that enrolled before the coordinator had tokens now counts as joined. */
    if (!owner || (device->device.join_token[0] == '\0' && join->token[0])) {
        memcpy(device->device.join_token, join->token, sizeof(device->device.join_token));
        mark_device_changed(core, device);
    }
    core->join_reply = (struct join_reply){
        .device = device->device.id, .pending = device->device.pending, .time_ms = core->wall_ms};
    memcpy(core->join_reply.name, device->device.name, sizeof(core->join_reply.name));
    act_reply_agent(core, owner ? 200 : 201, OBJECT_JOIN_REPLY, &core->join_reply,
                    join->request->protocol);
}

/* ---- enrolment ---- */

static void take_request(struct device *device, const struct enroll_request *request)
{
    if (!device->renamed) {
        memcpy(device->name, request->name, sizeof(device->name));
    }
    memcpy(device->address, request->address, sizeof(device->address));
    memcpy(device->numeric_class, request->numeric_class, sizeof(device->numeric_class));
    device->protocol = request->protocol;
    device->inventory = request->inventory;
    device->probe = request->probe;
    memcpy(device->label, request->label, sizeof(device->label));
    device->label_count = request->label_count;
    memcpy(device->offer, request->offer, sizeof(device->offer));
    device->offer_count = request->offer_count;
}

void enrolment_on_enroll(struct core *core, const struct event *event)
{
    const struct enroll_request *request = event->enroll.request;
    if (!speaks(core, request->protocol)) {
        return;
    }
    struct device_slot *device = find_key(core, request->public_key);
    bool known = device != NULL;
    if (!known) {
        device = add_device(core, request->public_key, DEVICE_ONLINE);
    }
    if (!device) {
        return;
    }
    bool first = !known || device->device.state == DEVICE_JOINED;
    bool same_boot = known && strcmp(device->device.boot, request->boot) == 0;
    if (known && !same_boot && !identity_takes(core, device, request, event->enroll.source)) {
        return;
    }
    identity_note_source(device, event->enroll.source);
    bool moved = known && strcmp(device->device.address, request->address) != 0;
    take_request(&device->device, request);
    capacity_enrolled(core, device);
    if (!same_boot) {
        take_boot(core, device, request->boot, "restarted");
    }
    if (moved && device->job) {
        holdings_touch_job(core, device->job);
    }
    mark_device_changed(core, device);
    lease_renew(core, device);
    core->schedule = core->joinable = core->data_changed = true;
    if (first) {
        act_publish(core, "device_enrolled", device->device.id.text, "device '%s' is enrolled",
                    device->device.name);
    }
    core->enroll_reply = (struct enroll_reply){.device = device->device.id,
                                               .protocol = PROTOCOL_VERSION,
                                               .interval_ms = core->config.heartbeat_ms,
                                               .pending = device->device.pending};
    act_reply_agent(core, known ? 200 : 201, OBJECT_ENROLL_REPLY, &core->enroll_reply,
                    request->protocol);
}
