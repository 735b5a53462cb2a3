#include "coordinator/core/gossip_local.h"

#include <string.h>

#include "coordinator/core/device.h"
#include "coordinator/core/early_stops.h"
#include "coordinator/core/groups.h"
#include "coordinator/core/mark.h"
#include "coordinator/core/matching.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/state.h"
#include "coordinator/core/text.h"
#include "schema/job_check.h"

bool gossip_is_local(const struct job_spec *spec)
{
    return spec->train_local.name[0] != '\0';
}

static const struct offer *fitting(const struct job_spec *spec, const struct model *model,
                                   const struct device *device)
{
    const struct placement_request request = {.spec = spec, .model = model};
    return matching_data(&request, device)
               ? offer_find(device->offer, device->offer_count, spec->train_local.name)
               : NULL;
}

const struct offer *gossip_local_offer(const struct core *core, const struct job_spec *spec,
                                       const struct model *model, const struct device_id *device)
{
    const struct device_slot *slot = slots_device(core, device->text);
    return slot ? fitting(spec, model, &slot->device) : NULL;
}

/* Return whether the offer has more than the data that the job trains on, which it begins with.
 * Where classes become countable, or no longer are, others would be held out of those. */
static bool extends(const struct offer *offer, const struct job_slot *job)
{
    const struct job_spec *spec = &job->job.spec;
    const struct offer_part *part = offer_part(offer, spec->train_local.sha256);
    const bool holds_alike = spec->test_local.holdout <= 0 ||
                             (offer->class_count_count > 0) == (spec->test_local.classes > 0);
    return part && part->samples == job->job.data.train_samples && holds_alike;
}

bool gossip_local_changed(const struct core *core, const struct parent_slot *parent,
                          const struct job_slot *job)
{
    const struct local_train *local = &job->job.spec.train_local;
    const struct offer *offer =
        gossip_is_local(&parent->job.spec)
            ? gossip_local_offer(core, &parent->job.spec, parent->model, &local->device)
            : NULL;
    return offer && strcmp(offer->sha256, local->sha256) != 0 && !extends(offer, job);
}

/* NULL: they have not grown. */
static const struct offer *longer(const struct core *core, const struct job_slot *job)
{
    const struct job_spec *spec = &job->job.spec;
    const struct offer *offer =
        gossip_is_local(spec) && spec->train_local.sha256[0] != '\0'
            ? gossip_local_offer(core, spec, job->model, &spec->train_local.device)
            : NULL;
    return offer && extends(offer, job) ? offer : NULL;
}

bool gossip_local_grew(const struct core *core, const struct job_slot *job)
{
    return longer(core, job) != NULL;
}

void gossip_local_take(struct core *core, struct job_slot *job)
{
    const struct offer *offer = longer(core, job);
    struct job_spec *spec = &job->job.spec;
    struct job_data *data = &job->job.data;
    if (!offer) {
        return;
    }
    memcpy(spec->train_local.sha256, offer->sha256, SHA256_SIZE);
    data->train_samples = offer->samples;
    if (spec->test_local.holdout > 0) {
        spec->test_local.classes = (int64_t)offer->class_count_count;
        data->test_samples = job_held(spec, offer);
        data->epoch_samples = offer->samples - data->test_samples;
    }
    early_stops_init(job);
    mark_job_changed(core, job);
}

/* ---- the note ---- */

static void add(char out[MESSAGE_SIZE], const char *what, const char *name)
{
    const size_t used = strlen(out);
    text_set(out + used, MESSAGE_SIZE - used, "; '%.40s' %s", name, what);
}

/* The group of the device; the number of groups: none. */
static size_t group_of(const struct parent_slot *parent, const struct device_id *device)
{
    const struct parent *row = &parent->parent;
    size_t g = 0;
    while (g < row->groups.count && !id_equal(row->groups.group[g].device.text, device->text)) {
        g++;
    }
    return g;
}

static bool waits(const struct core *core, const struct parent_slot *parent, size_t group)
{
    const struct parent_part *part = &parent->parent.part[group];
    const struct job_slot *job = groups_job(core, part);
    return part->state == PART_WAITING || (job && job->job.state == JOB_WAITING_FOR_DEVICES);
}

void gossip_local_note(const struct core *core, struct parent_slot *parent)
{
    const struct job_spec *spec = &parent->job.spec;
    const size_t groups = parent->parent.groups.count;
    parent->work.note[0] = '\0';
    for (size_t d = 0; gossip_is_local(spec) && d < core->devices.count; d++) {
        const struct device_slot *slot = slots_device_at(core, d);
        const struct device *device = &slot->device;
        const struct offer *any =
            offer_find(device->offer, device->offer_count, spec->train_local.name);
        const bool fits = fitting(spec, parent->model, device) != NULL;
        const size_t group = group_of(parent, &device->id);
        if (group < groups && waits(core, parent, group)) {
            add(parent->work.note,
                !device_online(slot) ? "is away, and its group waits"
                : fits               ? "is back"
                : any                ? "offers other classes or samples now, and its group waits"
                                     : "does not offer its data now, and its group waits",
                device->name);
        } else if (group == groups && any && !fits && device_online(slot)) {
            add(parent->work.note,
                "is left out: other classes or samples, or less than a batch to train on",
                device->name);
        }
    }
}
