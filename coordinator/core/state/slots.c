#include "coordinator/core/state/slots.h"

#include "coordinator/core/state/state.h"

struct device_slot *slots_device(const struct core *core, const char *id)
{
    return table_find(&core->devices, id);
}

struct job_slot *slots_job(const struct core *core, const char *id)
{
    return table_find(&core->jobs, id);
}

struct parent_slot *slots_parent(const struct core *core, const char *id)
{
    return table_find(&core->parents, id);
}

struct parent_slot *slots_parent_at(const struct core *core, size_t index)
{
    return table_at(&core->parents, index);
}

struct device_slot *slots_device_at(const struct core *core, size_t index)
{
    return table_at(&core->devices, index);
}

struct job_slot *slots_job_at(const struct core *core, size_t index)
{
    return table_at(&core->jobs, index);
}

struct device_slot *slots_stage_device(const struct core *core, const struct job_slot *job,
                                       size_t stage)
{
    return slots_device(core, job->plan.stage[stage].device.text);
}

/* ---- readers of the core ---- */

size_t core_device_count(const struct core *core)
{
    return core->devices.count;
}

const struct device *core_device_at(const struct core *core, size_t index)
{
    return &slots_device_at(core, index)->device;
}

const struct device *core_device(const struct core *core, const char *id)
{
    const struct device_slot *device = slots_device(core, id);
    return device ? &device->device : NULL;
}

size_t core_job_count(const struct core *core)
{
    return core->jobs.count + core->parents.count;
}

const struct job *core_job_at(const struct core *core, size_t index)
{
    return index < core->jobs.count ? &slots_job_at(core, index)->job
                                    : &slots_parent_at(core, index - core->jobs.count)->job;
}

const struct job *core_job(const struct core *core, const char *id)
{
    const struct job_slot *job = slots_job(core, id);
    const struct parent_slot *parent = job ? NULL : slots_parent(core, id);
    return job ? &job->job : parent ? &parent->job : NULL;
}

const struct parent *core_parent(const struct core *core, const char *job_id)
{
    const struct parent_slot *parent = slots_parent(core, job_id);
    return parent ? &parent->parent : NULL;
}

const struct plan *core_job_plan(const struct core *core, const char *job_id)
{
    const struct job_slot *job = slots_job(core, job_id);
    return job && job->has_plan ? &job->plan : NULL;
}
