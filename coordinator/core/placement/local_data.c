#include "coordinator/core/placement/local_data.h"

#include <string.h>

#include "coordinator/core/generation/early_stops.h"
#include "coordinator/core/placement/matching.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "schema/job_check.h"

const struct offer *local_data_fitting(const struct job_spec *spec, const struct model *model,
                                       const struct device *device)
{
    const struct placement_request request = {.spec = spec, .model = model};
    return matching_data(&request, device)
               ? offer_find(device->offer, device->offer_count, spec->train_local.name)
               : NULL;
}

const struct offer *local_data_offer(const struct core *core, const struct job_spec *spec,
                                     const struct model *model, const struct device_id *device)
{
    const struct device_slot *slot = slots_device(core, device->text);
    return slot ? local_data_fitting(spec, model, &slot->device) : NULL;
}

bool local_data_extends(const struct offer *offer, const struct job_slot *job)
{
    const struct job_spec *spec = &job->job.spec;
    const struct offer_part *part = offer_part(offer, spec->train_local.sha256);
    const bool holds_alike = spec->test_local.holdout <= 0 ||
                             (offer->class_count_count > 0) == (spec->test_local.classes > 0);
    return part && part->samples == job->job.data.train_samples && holds_alike;
}

/* The offer if the data have grown. NULL: they have not, or the job has a view, so that it trains
 * only on the samples with which it began. */
static const struct offer *longer(const struct core *core, const struct job_slot *job)
{
    const struct job_spec *spec = &job->job.spec;
    const struct offer *offer =
        spec->train_local.sha256[0] != '\0' && !spec->has_view
            ? local_data_offer(core, spec, job->model, &spec->train_local.device)
            : NULL;
    return offer && local_data_extends(offer, job) ? offer : NULL;
}

bool local_data_grew(const struct core *core, const struct job_slot *job)
{
    return longer(core, job) != NULL;
}

void local_data_use(const struct offer *offer, struct job_spec *spec, struct job_data *data)
{
    memcpy(spec->train_local.sha256, offer->sha256, SHA256_SIZE);
    data->train_samples = offer->samples;
    if (spec->test_local.holdout > 0) {
        spec->test_local.classes = (int64_t)offer->class_count_count;
        data->test_samples = job_held(spec, offer);
        data->epoch_samples = offer->samples - data->test_samples;
    }
}

void local_data_take(struct core *core, struct job_slot *job)
{
    const struct offer *offer = longer(core, job);
    if (!offer) {
        return;
    }
    local_data_use(offer, &job->job.spec, &job->job.data);
    early_stops_init(job);
    mark_job_changed(core, job);
}
