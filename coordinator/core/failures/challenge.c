/* If other devices cannot reach a device, the coordinator challenges it at once, because its lease
 * would show the loss too late. The answer decides between a lost device and a broken link
 * (suspicion.c). */
#include "coordinator/core/failures/challenge.h"

#include "coordinator/core/state/deadlines.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/ids.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"

void challenge_send(struct core *core, struct device_slot *device)
{
    if (!device_reachable(device) || device->challenge.due_ms != NEVER) {
        return;
    }
    ids_new(core, device->challenge.nonce, "chl_");
    device->challenge.due_ms = core->now_ms + deadlines_challenge_ms(core, device);
    mark_device_touched(core, device); /* its parked poll wakes */
}

void challenge_clear(struct device_slot *device)
{
    device->challenge.trouble_count = 0;
    device->challenge.nonce[0] = '\0';
    device->challenge.due_ms = NEVER;
    device->challenge.silent = device->challenge.poll_broken = false;
}

struct trouble *challenge_trouble(struct device_slot *device, const struct device_id *about)
{
    for (size_t i = 0; i < device->challenge.trouble_count; i++) {
        if (id_equal(device->challenge.trouble[i].device.text, about->text)) {
            return &device->challenge.trouble[i];
        }
    }
    return NULL;
}

int64_t challenge_broken_since_ms(const struct core *core, const struct device_slot *device)
{
    int64_t since_ms = device->challenge.poll_broken ? device->lease.seen_ms : NEVER;
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *other = slots_device_at(core, i);
        const struct trouble *trouble = challenge_trouble(other, &device->device.id);
        if (trouble && trouble->kind != PEER_STALLED && trouble->since_ms < since_ms) {
            since_ms = trouble->since_ms;
        }
    }
    return since_ms;
}

int64_t challenge_alive_ms(const struct core *core, const struct device_slot *device)
{
    int64_t since_ms = challenge_broken_since_ms(core, device);
    return since_ms != NEVER && since_ms > device->lease.seen_ms ? since_ms : device->lease.seen_ms;
}

int64_t challenge_next_ms(const struct device_slot *device)
{
    int64_t due_ms = device->challenge.due_ms;
    for (size_t i = 0; i < device->challenge.trouble_count; i++) {
        due_ms = device->challenge.trouble[i].due_ms < due_ms ? device->challenge.trouble[i].due_ms
                                                              : due_ms;
    }
    return due_ms;
}

/* The coordinator could not listen: a challenge restarts, and reports may be withdrawn for two more
 * heartbeats. */
void challenge_late(const struct core *core, struct device_slot *device)
{
    if (device->challenge.due_ms != NEVER) {
        device->challenge.due_ms = core->now_ms + deadlines_challenge_ms(core, device);
    }
    for (size_t i = 0; i < device->challenge.trouble_count; i++) {
        int64_t *due_ms = &device->challenge.trouble[i].due_ms,
                least_ms = core->now_ms + 2 * core->config.heartbeat_ms;
        *due_ms = *due_ms < least_ms ? least_ms : *due_ms;
    }
}
