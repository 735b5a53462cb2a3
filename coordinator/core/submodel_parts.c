#include "coordinator/core/submodel_parts.h"

#include <string.h>

#include "coordinator/core/class_groups.h"
#include "coordinator/core/state.h"
#include "coordinator/core/text.h"

#define JOINT_RATE 0.1 /* of the learning rate */

static void name_part(struct job_spec *spec, const struct job_spec *parent, const char *suffix)
{
    const int room = (int)sizeof(spec->name) - 1 - (int)strlen(suffix);
    text_set(spec->name, sizeof(spec->name), "%.*s%s", room, parent->name, suffix);
}

/* A part is an ordinary job with the fields of its parent. */
static void begin_spec(struct job_spec *spec, const struct parent_slot *parent)
{
    static const struct submodel_options none;
    *spec = parent->job.spec;
    spec->strategy = STRATEGY_PIPELINE;
    spec->submodel = none;
}

static void start_from(struct job_spec *spec, struct job_data *data,
                       const struct checkpoint_id *checkpoint, const char *sha256, int64_t bytes)
{
    spec->init_checkpoint = *checkpoint;
    spec->init_except_count = 0;
    text_set(data->checkpoint_sha256, sizeof(data->checkpoint_sha256), "%s", sha256);
    data->checkpoint_bytes = bytes;
}

void submodel_stem_job(const struct parent_slot *parent, struct job_spec *spec)
{
    begin_spec(spec, parent);
    name_part(spec, &parent->job.spec, ".stem");
    spec->epochs = parent->job.spec.submodel.stem_epochs;
}

/* The harvested model as a whole, at a tenth of the rate. */
void submodel_joint_job(const struct parent_slot *parent, struct job_spec *spec,
                        struct job_data *data)
{
    begin_spec(spec, parent);
    name_part(spec, &parent->job.spec, ".joint");
    spec->epochs = parent->job.spec.submodel.joint_epochs;
    spec->learning_rate.value *= JOINT_RATE;
    spec->learning_rate.final_value *= JOINT_RATE;
    start_from(spec, data, &parent->parent.harvest, parent->parent.harvest_sha256,
               parent->parent.harvest_bytes);
}

static double own_samples(const struct parent *parent, size_t group)
{
    const struct class_group *one = &parent->groups.group[group];
    double own = 0;
    for (int64_t c = 0; c < one->class_count; c++) {
        own += (double)parent->class_samples[parent->groups.class_of[one->class_first + c]];
    }
    return own;
}

/* One device, the stem's weights, new weights after it. A retrained group has the next seed. */
void submodel_group_job(const struct parent_slot *parent, size_t group, struct job_spec *spec,
                        struct job_data *data)
{
    const struct class_group *one = &parent->parent.groups.group[group];
    const struct parent_part *stem = &parent->parent.stem;
    const struct class_problem problem = {.samples = parent->parent.class_samples,
                                          .class_count = parent->parent.class_count,
                                          .negatives = parent->job.spec.submodel.negatives};
    char suffix[24];
    begin_spec(spec, parent);
    text_set(suffix, sizeof(suffix), ".group%zu", group);
    name_part(spec, &parent->job.spec, suffix);
    spec->seed += parent->parent.part[group].attempts;
    spec->devices_min = spec->devices_max = 1;
    for (size_t i = 0; i < one->label_count && spec->device_label_count < LABELS_MAX; i++) {
        spec->device_label[spec->device_label_count++] = one->label[i];
    }
    start_from(spec, data, &stem->checkpoint, stem->sha256, stem->bytes);
    for (size_t u = (size_t)parent->job.spec.submodel.stem; u < parent->model->unit_count; u++) {
        text_set(spec->init_except[spec->init_except_count++].text, NAME_SIZE, "%s",
                 parent->model->unit[u].name);
    }
    data->train_samples =
        (int64_t)class_groups_samples(&problem, own_samples(&parent->parent, group));
}
