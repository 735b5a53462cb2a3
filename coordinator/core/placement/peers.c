#include "coordinator/core/placement/peers.h"

#include <string.h>

#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"

/* A device that speaks TLS is trusted by its key. */
void peers_key(const struct device_slot *device, char out[SHA256_SIZE])
{
    static const char scheme[] = "https://";
    if (strncmp(device->device.address, scheme, sizeof(scheme) - 1) == 0) {
        memcpy(out, device->device.public_key, SHA256_SIZE);
    }
}

void peers_fill(const struct core *core, const struct job_slot *job, size_t stage, enum codec codec,
                struct peer *out)
{
    const struct device_slot *device = slots_stage_device(core, job, stage);
    out->device = job->plan.stage[stage].device;
    text_set(out->codec, sizeof(out->codec), "%s", codec_info(codec)->name);
    if (device) {
        memcpy(out->url, device->device.address, URL_SIZE);
        peers_key(device, out->public_key);
    }
}

void peers_allow(const struct core *core, const struct job_slot *job,
                 const struct device_id *device, struct assignment *out)
{
    const struct device_slot *calling = slots_device(core, device->text);
    for (size_t i = 0; i < out->caller_count; i++) {
        if (id_equal(out->caller[i].device.text, device->text) &&
            id_equal(out->caller[i].job.text, job->job.id.text)) {
            return;
        }
    }
    if (out->caller_count < STAGES_MAX) {
        struct caller *caller = &out->caller[out->caller_count++];
        *caller = (struct caller){
            .job = job->job.id, .generation = job->plan.generation, .device = *device};
        if (out->relay_count > 0) {
            caller->plan = job->plan.id;
        }
        if (calling) {
            peers_key(calling, caller->public_key);
        }
    }
}
