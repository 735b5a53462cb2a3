#include "coordinator/core/state/mark.h"

#include "coordinator/core/state/state.h"

static void mark_device(struct core *core, struct device_slot *device)
{
    if (!device->mark.row && !device->mark.touched) {
        core->device_list[core->device_list_count++] = device;
    }
}

void mark_device_changed(struct core *core, struct device_slot *device)
{
    mark_device(core, device);
    device->mark.row = true;
}

void mark_device_touched(struct core *core, struct device_slot *device)
{
    mark_device(core, device);
    device->mark.touched = true;
}

void mark_job(struct core *core, struct job_slot *job)
{
    if (!job->mark.listed) {
        job->mark.listed = true;
        core->job_list[core->job_list_count++] = job;
    }
}

void mark_job_changed(struct core *core, struct job_slot *job)
{
    mark_job(core, job);
    job->mark.row = true;
}

void mark_plan_changed(struct core *core, struct job_slot *job)
{
    mark_job(core, job);
    job->mark.plan = true;
}
