#include "coordinator/core/submodel/submodel_parts.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/sort.h"
#include "coordinator/core/parts/part_spec.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"
#include "schema/job_check.h"

#define JOINT_RATE 0.1                   /* of the learning rate */
#define GROUP_HOLDOUT 0.05               /* share of the own samples, for the quality gate */
#define SEEDS ((int64_t)INTEGER_MAX + 1) /* the seed after the last is 0 */

void submodel_stem_job(const struct parent_slot *parent, struct job_spec *spec)
{
    part_spec_begin(parent, spec);
    part_spec_name(parent, ".stem", spec);
    spec->epochs = parent->job.spec.submodel.stem_epochs;
    part_spec_shorten_warmup(&parent->job.data, spec);
}

/* Restrict the job to classes that a group was trained for, with the labels of the data. The
 * harvested model never predicts a missing class: the loss of its samples would only be that of the
 * bias. */
static void view_without(const struct parent *row, const int64_t *missing, size_t missing_count,
                         struct job_spec *spec, struct job_data *data)
{
    struct view_sizes sizes;
    size_t left_out = 0;
    spec->has_view = true;
    spec->view = (struct view){.numbers = VIEW_NUMBERS_DATA};
    for (size_t c = 0; c < row->class_count; c++) {
        if (left_out < missing_count && missing[left_out] == (int64_t)c) {
            left_out++;
        } else {
            spec->view.class[spec->view.class_count++] = (int64_t)c;
        }
    }
    view_sizes(&spec->view, row->joint_class_count > 0 ? row->joint_samples : row->class_samples,
               row->class_count, &sizes);
    data->epoch_samples = (int64_t)view_epoch(&sizes);
}

/* Replace the data that stay on devices by an uploaded data set. */
static void use_joint_data(const struct parent_slot *parent, struct job_spec *spec,
                           struct job_data *data)
{
    spec->train_local = job_spec_default.train_local;
    text_set(spec->dataset_train, NAME_SIZE, "%s", parent->job.spec.submodel.joint_dataset);
    memcpy(data->train_sha256, parent->job.data.joint_sha256, SHA256_SIZE);
    data->train_samples = parent->job.data.joint_samples;
    data->epoch_samples = 0;
}

/* Train the whole harvested model, at a tenth of the learning rate. */
void submodel_joint_job(const struct parent_slot *parent, struct job_spec *spec,
                        struct job_data *data)
{
    int64_t missing[COUNTED_CLASSES_MAX];
    const size_t missing_count = parent_missing(&parent->parent, missing);
    part_spec_begin(parent, spec);
    part_spec_name(parent, ".joint", spec);
    spec->epochs = parent->job.spec.submodel.joint_epochs;
    spec->learning_rate.value *= JOINT_RATE;
    spec->learning_rate.final_value *= JOINT_RATE;
    part_spec_start_from(&parent->parent.harvest, parent->parent.harvest_sha256,
                         parent->parent.harvest_bytes, spec, data);
    if (job_is_local(&parent->job.spec)) {
        use_joint_data(parent, spec, data);
    }
    part_spec_own_data(data);
    if (missing_count > 0) {
        view_without(&parent->parent, missing, missing_count, spec, data);
    }
    part_spec_shorten_warmup(data, spec);
}

struct slim_split submodel_split(const struct model *target, size_t stem,
                                 const struct class_groups *groups,
                                 struct slim_group group[GROUPS_MAX])
{
    for (size_t g = 0; g < groups->count; g++) {
        group[g] = (struct slim_group){.classes = (uint32_t)groups->group[g].class_count,
                                       .width = groups->group[g].width};
    }
    return (struct slim_split){
        .target = target, .stem = stem, .group = group, .group_count = groups->count};
}

static void list_classes(const struct class_groups *groups, size_t group, double negatives,
                         struct view *view)
{
    const struct class_group *one = &groups->group[group];
    *view = (struct view){
        .class_count = (size_t)one->class_count, .negatives = negatives, .holdout = GROUP_HOLDOUT};
    for (int64_t c = 0; c < one->class_count; c++) {
        view->class[c] = groups->class_of[one->class_first + c];
    }
}

/* The view has the classes of the group and a draw of the others. It holds out some own samples. */
void submodel_group_view(const struct class_groups *groups, size_t group,
                         const struct class_samples *data, double negatives, struct view *view,
                         struct view_sizes *sizes)
{
    list_classes(groups, group, negatives, view);
    for (size_t c = 0; c < view->class_count; c++) {
        if (class_samples_of(data, (size_t)view->class[c]) < 2) {
            view->holdout = 0; /* one sample cannot be both trained on and held out */
        }
    }
    view_sizes(view, data->samples, data->count, sizes);
}

int submodel_check_epochs(const struct class_problem *problem, const struct class_groups *groups,
                          int64_t batch, struct err *err)
{
    for (size_t g = 0; g < groups->count; g++) {
        const struct class_samples data = class_loads_data(problem, g);
        struct view view;
        struct view_sizes sizes;
        submodel_group_view(groups, g, &data, problem->negatives, &view, &sizes);
        if ((int64_t)view_epoch(&sizes) < batch) {
            return err_set(err, ERR_INVALID,
                           "one of %zu groups would have %" PRIu64
                           " training samples in an epoch, fewer than a batch of %" PRId64,
                           groups->count, view_epoch(&sizes), batch);
        }
    }
    return 0;
}

void submodel_part_view(const struct parent *row, double negatives, size_t group, struct view *view,
                        struct view_sizes *sizes)
{
    const struct class_samples all = {.samples = row->class_samples, .count = row->class_count};
    const struct group_data *local = &row->groups.group[group].data;
    if (local->own == 0) {
        submodel_group_view(&row->groups, group, &all, negatives, view, sizes);
        return;
    }
    list_classes(&row->groups, group, negatives, view);
    view->holdout = local->held > 0 ? view->holdout : 0;
    *sizes = (struct view_sizes){.own = (uint64_t)local->own,
                                 .held = (uint64_t)local->held,
                                 .others = (uint64_t)local->others,
                                 .drawn = (uint64_t)local->drawn};
}

/* The operations of a group in an epoch. */
static double work_of(const struct parent_slot *parent, size_t group)
{
    const struct parent *row = &parent->parent;
    const struct submodel_options *options = &parent->job.spec.submodel;
    struct slim_group slim[GROUPS_MAX];
    struct slim_cost cost = {0};
    struct view view;
    struct view_sizes sizes;
    struct err ignored = {0};
    const struct slim_split split =
        submodel_split(parent->model, (size_t)options->stem, &row->groups, slim);
    submodel_part_view(row, options->negatives, group, &view, &sizes);
    return slim_cost(&split, group, &cost, &ignored) == 0
               ? slim_load(&cost) * (double)view_epoch(&sizes)
               : 0;
}

void submodel_begin_order(const struct parent_slot *parent, size_t order[GROUPS_MAX])
{
    const bool planned = parent->parent.divisions > 0;
    double work[GROUPS_MAX];
    for (size_t g = 0; g < parent->parent.groups.count; g++) {
        sort_insert(order, work, g, planned ? 0 : work_of(parent, g));
    }
}

/* A group trains on one device, with the weights of the stem and new weights after it. A group that
 * did not learn gets the next seed. */
void submodel_group_job(const struct parent_slot *parent, size_t group, struct job_spec *spec,
                        struct job_data *data)
{
    const struct parent *row = &parent->parent;
    const struct class_group *one = &row->groups.group[group];
    const struct parent_part *stem = &row->stem;
    char suffix[24];
    part_spec_begin(parent, spec);
    text_set(suffix, sizeof(suffix), ".group%zu", group);
    part_spec_name(parent, suffix, spec);
    spec->seed = (spec->seed + parent->parent.part[group].reseeded) % SEEDS;
    spec->devices_min = spec->devices_max = 1;
    ASSERT(spec->device_label_count + one->label_count <= LABELS_MAX);
    for (size_t i = 0; i < one->label_count; i++) {
        spec->device_label[spec->device_label_count++] = one->label[i];
    }
    part_spec_start_from(&stem->checkpoint, stem->sha256, stem->bytes, spec, data);
    for (size_t u = (size_t)parent->job.spec.submodel.stem; u < parent->model->unit_count; u++) {
        text_set(spec->init_except[spec->init_except_count++].text, NAME_SIZE, "%s",
                 parent->model->unit[u].name);
    }
    struct view_sizes sizes;
    spec->has_view = true;
    submodel_part_view(row, parent->job.spec.submodel.negatives, group, &spec->view, &sizes);
    data->epoch_samples = (int64_t)view_epoch(&sizes);
    data->holdout_samples = (int64_t)sizes.held;
    if (job_is_local(&parent->job.spec)) {
        spec->train_local.device = one->device;
        memcpy(spec->train_local.sha256, one->data.sha256, SHA256_SIZE);
        data->train_samples = one->data.own + one->data.held + one->data.others;
    }
    part_spec_own_data(data);
    part_spec_shorten_warmup(data, spec);
}
