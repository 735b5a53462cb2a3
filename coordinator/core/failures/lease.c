/* Every call of a device renews its lease. Silence first makes it suspect, then lost; time in which
 * the coordinator itself could not listen does not count. */
#include "coordinator/core/failures/lease.h"

#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/sources.h"
#include "coordinator/core/failures/challenge.h"
#include "coordinator/core/failures/failure.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/deadlines.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"

/* Whether the device only takes a place in the table: it did not join by a token, no plan had it,
 * it holds no snapshots, and it is neither cordoned nor draining. */
static bool is_forgettable(const struct device_slot *device)
{
    return device->device.untried && device->device.join_token[0] == '\0' &&
           !device->device.cordoned && !device_drains(device) && device->holdings.count == 0;
}

/* The start of the device's silence, without the coordinator's own pauses. */
int64_t lease_silent_from_ms(const struct core *core, const struct device_slot *device)
{
    return device->lease.seen_ms > core->deaf_ms ? device->lease.seen_ms : core->deaf_ms;
}

int64_t lease_end_ms(const struct core *core, const struct device_slot *device)
{
    int64_t from_ms = lease_silent_from_ms(core, device);
    switch ((enum device_state)device->device.state) {
    case DEVICE_ONLINE: return from_ms + deadlines_suspect_ms(core);
    case DEVICE_SUSPECT:
    case DEVICE_DISCONNECTED: return from_ms + core->config.lease_ms;
    case DEVICE_JOINED:
    case DEVICE_LOST:
        return is_forgettable(device) ? device->lease.lost_ms + DEVICE_FORGET_MS : NEVER;
    case DEVICE_REMOVED: break;
    }
    return NEVER;
}

int64_t lease_next_ms(const struct core *core, const struct device_slot *device)
{
    int64_t lease = lease_end_ms(core, device), suspicion = challenge_next_ms(device);
    return lease < suspicion ? lease : suspicion;
}

void lease_time(struct core *core, struct device_slot *device)
{
    core->device_due_ms[table_slot(&core->devices, device)] = lease_next_ms(core, device);
}

void lease_set_state(struct core *core, struct device_slot *device, int state, const char *event)
{
    device->device.state = state;
    mark_device_changed(core, device);
    act_publish(core, event, device->device.id.text, "device '%s' is %s", device->device.name,
                device_state_names[state]);
}

void lease_renew(struct core *core, struct device_slot *device)
{
    device->lease.seen_ms = core->now_ms;
    device->device.last_seen_ms = core->wall_ms;
    if (!device_online(device)) {
        lease_set_state(core, device, DEVICE_ONLINE, "device_online");
        core->schedule = core->joinable = true;
    }
    lease_time(core, device);
}

/* Fail the job for which the device works, and the jobs that take units from it. */
void lease_fail_jobs(struct core *core, const struct device_slot *device, struct blame blame,
                     const char *how)
{
    if (device->job && center_needs_device(device)) {
        failure_note(core, device->job, blame, "device '%s' %s", device->device.name, how);
    }
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = slots_job_at(core, i);
        if (job != device->job && sources_serves(job, device)) {
            failure_note(core, job, blame, "device '%s', from which units are fetched, %s",
                         device->device.name, how);
        }
    }
}

void lease_lost(struct core *core, struct device_slot *device)
{
    const struct blame blame = {.cause = FAILURE_DEVICE_LOST,
                                .device = device,
                                .since_ms = challenge_alive_ms(core, device)};
    lease_fail_jobs(core, device, blame, "was lost");
    lease_set_state(core, device, DEVICE_LOST, "device_lost");
    device->lease.lost_ms = core->now_ms;
    core->schedule = true; /* waiting jobs update the message about their wait */
    challenge_clear(device);
}

void lease_disconnected(struct core *core, struct device_slot *device)
{
    const struct blame blame = {.cause = FAILURE_DEVICE_LOST,
                                .device = device,
                                .since_ms = challenge_alive_ms(core, device)};
    lease_fail_jobs(core, device, blame, "is silent and its connections broke");
    lease_set_state(core, device, DEVICE_DISCONNECTED, "device_disconnected");
}

void lease_spare(struct core *core, int64_t ms)
{
    int64_t deaf_ms = core->now_ms + ms - core->config.lease_ms;
    core->deaf_ms = deaf_ms > core->deaf_ms ? deaf_ms : core->deaf_ms;
}
