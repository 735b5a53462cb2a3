#include "coordinator/core/state/device.h"

#include "base/assert.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/state.h"

const struct absent device_all_present = {0};

bool device_online(const struct device_slot *device)
{
    return device->device.state == DEVICE_ONLINE;
}

bool device_reachable(const struct device_slot *device)
{
    return device->device.state == DEVICE_ONLINE || device->device.state == DEVICE_SUSPECT;
}

bool device_drains(const struct device_slot *device)
{
    return device->device.draining || device->device.leaving;
}

bool device_ready(const struct device_slot *device)
{
    return device_online(device) && !device->challenge.silent && !device->device.pending &&
           !device->device.cordoned && !device_drains(device);
}

bool device_absent(const struct absent *absent, const struct device_slot *device)
{
    for (size_t i = 0; i < absent->count; i++) {
        if (id_equal(absent->device[i].text, device->device.id.text)) {
            return true;
        }
    }
    return false;
}

void device_assign(struct core *core, struct device_slot *device, struct job_slot *job,
                   size_t stage)
{
    if (device->job != job) {
        ASSERT(!device->job);
        device->job = job;
        device->device.job = job->job.id;
        device->device.untried = false;
        mark_device_changed(core, device);
    }
    device->stage = stage;
    device->challenge.trouble_count = 0; /* these reports are about the previous generation */
    device->challenge.busy_ms = 0;
    mark_device_touched(core, device);
}

void device_release(struct core *core, struct device_slot *device)
{
    device->job = NULL;
    device->challenge.trouble_count = 0;
    device->device.job = (struct job_id){0};
    mark_device_changed(core, device);
    mark_device_touched(core, device);
    core->schedule = core->joinable = true;
}
