#include "coordinator/core/capacity/relays.h"

#include <string.h>

#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"

static bool has(const struct device_slot *device, const char *id)
{
    for (size_t i = 0; i < device->device.relayed_count; i++) {
        if (id_equal(device->device.relayed[i].text, id)) {
            return true;
        }
    }
    return false;
}

void relays_take(struct core *core, struct device_slot *device, const struct heartbeat *heartbeat)
{
    struct device_id known[RELAYED_MAX];
    size_t count = 0;
    bool same = true;
    for (size_t i = 0; i < heartbeat->relayed_count; i++) {
        const char *id = heartbeat->relayed[i].text;
        if (slots_device(core, id) && !id_equal(id, device->device.id.text)) {
            known[count++] = heartbeat->relayed[i];
            same = same && has(device, id);
        }
    }
    if (same && count == device->device.relayed_count) {
        return;
    }
    memcpy(device->device.relayed, known, count * sizeof(known[0]));
    device->device.relayed_count = count;
    mark_device_changed(core, device);
}

bool relays_between(const struct device_slot *a, const struct device_slot *b)
{
    return has(a, b->device.id.text) || has(b, a->device.id.text);
}

void relays_fill(const struct core *core, struct assignment *out)
{
    if (core->config.relay_port > 0) {
        out->relay[out->relay_count++] = (struct relay_place){.port = core->config.relay_port};
    }
}
