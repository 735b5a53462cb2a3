/* The kernels of a job are measured once, by the devices of a plan that does nothing else, before
 * anything is trained: each tells those of its own units, the edge puts them into the model's
 * description, the next generation trains. */
#include <inttypes.h>
#include <string.h>

#include "coordinator/core/core_private.h"

/* Own kernels follow from the shape, and a plan over several classes is inexact anyway. Where every
 * pass has its kernel there is nothing to measure: so a job does this once. */
bool tuning_wanted(const struct job_slot *job)
{
    return job->job.data.tune && job->plan.state == PLAN_PREPARING &&
           job->plan.resume_version == 0 &&
           conv2d_backend_of(job->job.numeric_class) == CONV2D_BACKEND_ONEDNN &&
           kernel_text_wanted(job->model);
}

void tuning_take(struct core *core, struct job_slot *job, const struct device_slot *device,
                 const struct heartbeat *heartbeat)
{
    const struct plan_stage *stage = &job->plan.stage[device->stage];
    if (!tuning_wanted(job) || job->kernels_told) {
        return;
    }
    if (!kernel_text_fits(job->model, (size_t)stage->first, (size_t)stage->end,
                          heartbeat->kernels)) {
        generation_fail(
            core, job,
            (struct blame){.cause = FAILURE_ERROR, .device = device, .since_ms = core->now_ms},
            "device '%.60s': the kernels that it measured are not those of units %" PRId64
            " to %" PRId64,
            device->device.name, stage->first, stage->end - 1);
        return;
    }
    size_t before = kernel_text_length(job->model, 0, (size_t)stage->first);
    memcpy(job->kernels + before, heartbeat->kernels, strlen(heartbeat->kernels));
}

void tuning_finish(struct core *core, struct job_slot *job)
{
    if (!job->kernels_told) {
        job->kernels[kernel_text_length(job->model, 0, job->unit_count)] = '\0';
        job->kernels_told = true;
        act_tune(core, job->job.id.text);
    }
}

const char *core_job_kernels(const struct core *core, const char *job_id, int64_t *generation)
{
    const struct job_slot *job = job_find(core, job_id);
    bool told = job && job->kernels_told && tuning_wanted(job);
    *generation = told ? job->plan.generation : 0;
    return told ? job->kernels : NULL;
}

void handle_tuned(struct core *core, const struct event *event)
{
    const struct event_tuned *tuned = &event->tuned;
    struct job_slot *job = job_find(core, tuned->job.text);
    int64_t generation;
    if (!job || !core_job_kernels(core, tuned->job.text, &generation) ||
        generation != tuned->generation) {
        return; /* that plan is over */
    }
    if (!tuned->model) {
        generation_fail(core, job, (struct blame){.cause = FAILURE_ERROR, .since_ms = core->now_ms},
                        "the kernels could not be stored: %.200s", tuned->message);
        return;
    }
    job->model = tuned->model;
    memcpy(job->job.spec.model.sha256, tuned->sha256, SHA256_SIZE);
    job_changed(core, job);
    placement_as_wish(&job->plan, &job->ran);
    job->stay = true;
    (void)generation_begin(core, job, PLAN_TUNED);
}
