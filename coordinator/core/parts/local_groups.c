#include "coordinator/core/parts/local_groups.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/core/parts/groups.h"
#include "coordinator/core/placement/local_data.h"
#include "coordinator/core/placement/matching.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"
#include "coordinator/core/submodel/submodel_parts.h"
#include "schema/job_check.h"

/* Whether the offer has the group's classes, if the job divides classes, and a batch of samples. */
static bool has_classes(const struct parent_slot *parent, size_t group, const struct offer *offer)
{
    const struct class_groups *groups = &parent->parent.groups;
    const struct class_group *one = &groups->group[group];
    const struct class_samples data = {.samples = offer->class_count,
                                       .count = offer->class_count_count};
    const struct job_spec *spec = &parent->job.spec;
    struct view view;
    struct view_sizes sizes;
    for (int64_t c = 0; c < one->class_count; c++) {
        if (class_samples_of(&data, (size_t)groups->class_of[one->class_first + c]) == 0) {
            return false;
        }
    }
    if (one->class_count == 0) {
        return true;
    }
    submodel_group_view(groups, group, &data, spec->submodel.negatives, &view, &sizes);
    return sizes.others > 0 && (int64_t)view_epoch(&sizes) >= spec->batch;
}

const struct offer *local_groups_offer(const struct core *core, const struct parent_slot *parent,
                                       size_t group)
{
    const struct device_id *device = &parent->parent.groups.group[group].device;
    const struct offer *offer = local_data_offer(core, &parent->job.spec, parent->model, device);
    return offer && has_classes(parent, group, offer) ? offer : NULL;
}

bool local_groups_changed(const struct core *core, const struct parent_slot *parent,
                          const struct job_slot *job)
{
    const struct local_train *local = &job->job.spec.train_local;
    const struct offer *offer =
        job_is_local(&parent->job.spec)
            ? local_data_offer(core, &parent->job.spec, parent->model, &local->device)
            : NULL;
    return offer && strcmp(offer->sha256, local->sha256) != 0 && !local_data_extends(offer, job);
}

/* ---- the note ---- */

static void add(char out[MESSAGE_SIZE], const char *what, const char *name)
{
    const size_t used = strlen(out);
    text_set(out + used, MESSAGE_SIZE - used, "; '%.40s' %s", name, what);
}

/* The group of the device; the number of groups if the device has no group. */
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

/* Add the reason why the job does not train on the device's offer. */
static void add_left_out(char out[MESSAGE_SIZE], const struct job_spec *spec,
                         const struct device *device, const struct offer *offer)
{
    static const char *const why[] = {
        [OFFER_OF_OTHER_FORM] = "data of another form",
        [OFFER_OF_MORE_CLASSES] = "more classes",
        [OFFER_OF_FEW_SAMPLES] = "too few samples for a batch",
    };
    char words[MESSAGE_SIZE];
    const enum matching_offer fault = matching_offer(spec, device);
    text_set(words, sizeof(words), "is left out: %s", why[fault]);
    if (fault == OFFER_OF_FEW_SAMPLES) {
        const size_t used = strlen(words);
        text_set(words + used, sizeof(words) - used, ", %" PRId64 " of %" PRId64,
                 offer->samples - job_held(spec, offer), spec->batch);
    }
    add(out, words, device->name);
}

void local_groups_note(const struct core *core, struct parent_slot *parent)
{
    const struct job_spec *spec = &parent->job.spec;
    const size_t groups = parent->parent.groups.count;
    parent->work.note[0] = '\0';
    for (size_t d = 0; job_is_local(spec) && d < core->devices.count; d++) {
        const struct device_slot *slot = slots_device_at(core, d);
        const struct device *device = &slot->device;
        const struct offer *any =
            offer_find(device->offer, device->offer_count, spec->train_local.name);
        const size_t group = group_of(parent, &device->id);
        const bool fits = group < groups ? local_groups_offer(core, parent, group) != NULL
                                         : local_data_fitting(spec, parent->model, device) != NULL;
        if (group < groups && waits(core, parent, group)) {
            add(parent->work.note,
                !device_online(slot)          ? "is away, and its group waits"
                : fits && !device_ready(slot) ? "takes no groups now, and its group waits"
                : fits                        ? "is back"
                : any ? "offers other classes or samples now, and its group waits"
                      : "does not offer its data now, and its group waits",
                device->name);
        } else if (group == groups && any && !fits && device_online(slot)) {
            add_left_out(parent->work.note, spec, device, any);
        }
    }
}
