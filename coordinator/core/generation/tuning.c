/* The kernels of a job are measured once, before training, by the devices of a plan that does
 * nothing else. Each device reports the kernels of its units, the edge writes them into the model's
 * description, and the next generation trains. */
#include "coordinator/core/generation/tuning.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/core/failures/failure.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

bool tuning_wanted(const struct job_slot *job)
{
    return job->plan.state == PLAN_PREPARING && states_kernels_wanted(job);
}

void tuning_take(struct core *core, struct job_slot *job, const struct device_slot *device,
                 const struct heartbeat *heartbeat)
{
    const struct plan_stage *stage = &job->plan.stage[device->stage];
    if (!tuning_wanted(job) || job->tuning.complete) {
        return;
    }
    if (!kernel_text_fits(job->model, (size_t)stage->first, (size_t)stage->end,
                          heartbeat->kernels)) {
        failure_note(
            core, job,
            (struct blame){.cause = FAILURE_ERROR, .device = device, .since_ms = core->now_ms},
            "device '%.60s' reported kernels that do not match units %" PRId64 " to %" PRId64,
            device->device.name, stage->first, stage->end - 1);
        return;
    }
    size_t before = kernel_text_length(job->model, 0, (size_t)stage->first);
    memcpy(job->tuning.kernels + before, heartbeat->kernels, strlen(heartbeat->kernels));
}

void tuning_finish(struct core *core, struct job_slot *job)
{
    if (!job->tuning.complete) {
        job->tuning.kernels[kernel_text_length(job->model, 0, job->unit_count)] = '\0';
        job->tuning.complete = true;
        act_tune(core, job->job.id.text);
    }
}

const char *core_job_kernels(const struct core *core, const char *job_id, int64_t *generation)
{
    const struct job_slot *job = slots_job(core, job_id);
    bool complete = job && job->tuning.complete && tuning_wanted(job);
    *generation = complete ? job->plan.generation : 0;
    return complete ? job->tuning.kernels : NULL;
}
