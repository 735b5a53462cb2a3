#include "coordinator/http/posted_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/core/submodel/submodel_parts.h"
#include "coordinator/core/submodel/submodel_plan.h"
#include "libtrain/model/slim.h"
#include "schema/job_check.h"

/* Check that the sample count of each class of a data set is known. */
static void check_counts(const struct posted_job *posted, const struct dataset *data,
                         const char *pointer, struct record_faults *faults)
{
    const char *strategy = job_strategy_names[posted->spec.strategy];
    const bool local = data == &posted->local;
    const int most = local ? OFFER_CLASSES_MAX : COUNTED_CLASSES_MAX;
    if (data->positions > 1) {
        record_fault(faults, "/strategy", "'%s' needs one label a sample; '%s' has more", strategy,
                     data->name);
    } else if (data->classes > most) {
        record_fault(faults, "/strategy", "'%s' divides at most %d classes%s; '%s' has %lld",
                     strategy, most, local ? " of data that stay on devices" : "", data->name,
                     (long long)data->classes);
    } else if (data->class_count_count == 0) {
        record_fault(faults, pointer,
                     "the classes of '%s' were not counted when it was stored; upload it again",
                     data->name);
    }
}

/* Check that each class has samples: a group cannot learn a class without samples. */
static void check_each(const struct dataset *train, bool local, struct record_faults *faults)
{
    for (size_t c = 0; c < train->class_count_count && !faults->more; c++) {
        if (train->class_count[c] == 0) {
            record_fault(faults, "/dataset/train", "class %zu of '%s' has no samples%s", c,
                         train->name, local ? " on any device" : "");
        }
    }
}

/* Return the smallest number of groups, of equal width, for a job that does not list its groups. */
static size_t least_groups(const struct submodel_options *options)
{
    const int64_t set = options->group_count > 0 ? options->group_count : 2;
    return (size_t)(set * options->replicas);
}

/* Check that the model has enough channels, only divisible ops, and room for those that slices
 * add. */
static int check_slices(const struct posted_job *posted, struct record_faults *faults,
                        struct err *err)
{
    const struct submodel_options *options = &posted->spec.submodel;
    const struct class_groups *groups = &posted->groups;
    const bool given = groups->count > 0;
    struct slim_group group[GROUPS_MAX];
    struct slim_split split = {.target = posted->model->model,
                               .stem = (size_t)options->stem,
                               .group = group,
                               .group_count = given ? groups->count : least_groups(options)};
    char pointer[RECORD_POINTER_MAX] = "/submodel/stem";
    struct slim_cost cost;
    size_t narrow;
    for (size_t g = 0; g < split.group_count; g++) {
        const struct class_group *one = &groups->group[g];
        const double width = one->width > 0 ? one->width : 1 / (double)split.group_count;
        group[g] = (struct slim_group){given ? (uint32_t)one->class_count : 2, width};
    }
    int rc = slim_check_group(&split, &narrow, err);
    for (size_t g = 0; !rc && g < split.group_count; g++) {
        rc = slim_cost(&split, g, &cost, err);
    }
    if (narrow < split.group_count && given) {
        snprintf(pointer, sizeof(pointer), "/submodel/groups");
        if (groups->group[narrow].width > 0) {
            snprintf(pointer, sizeof(pointer), "/submodel/groups/%zu/width", narrow);
        }
    } else if (narrow < split.group_count && options->group_count > 0) {
        snprintf(pointer, sizeof(pointer), "/submodel/group_count");
    }
    if (rc) {
        record_fault(faults, pointer, "%s", err->text);
    }
    return rc;
}

/* Check that each given group has at least one batch to train on. */
static void check_epochs(const struct posted_job *posted, struct record_faults *faults)
{
    const struct class_groups *groups = &posted->groups;
    const struct submodel_options *options = &posted->spec.submodel;
    const struct class_samples data = {.samples = posted->classes.samples,
                                       .count = posted->classes.count};
    for (size_t g = 0; g < groups->count && !faults->more; g++) {
        struct view view;
        struct view_sizes sizes;
        char pointer[RECORD_POINTER_MAX];
        submodel_group_view(groups, g, &data, options->negatives, &view, &sizes);
        if ((int64_t)view_epoch(&sizes) < posted->spec.batch) {
            snprintf(pointer, sizeof(pointer), "/submodel/groups/%zu/classes", g);
            record_fault(faults, pointer,
                         "%" PRIu64 " training samples in an epoch of the group, fewer than a "
                         "batch of %" PRId64,
                         view_epoch(&sizes), posted->spec.batch);
        }
    }
}

/* Check the same for planned groups, whatever the devices are. */
static int check_plan(const struct posted_job *posted, struct record_faults *faults,
                      struct err *err)
{
    int rc = submodel_plan_check(posted->model->model, &posted->spec, &posted->classes, err);
    if (rc) {
        const bool counted = posted->spec.submodel.group_count > 0;
        record_fault(faults, counted ? "/submodel/group_count" : "/batch", "%s", err->text);
    }
    return rc;
}

/* Plan the widths of given groups, which do not depend on the devices. */
static int plan_widths(struct posted_job *posted, struct record_faults *faults, struct err *err)
{
    int rc =
        submodel_plan_widths(posted->model->model, &posted->spec.submodel, posted->class_samples,
                             posted->classes.count, &posted->groups, err);
    if (rc) {
        record_fault(faults, "/submodel/groups", "%s", err->text);
    }
    return rc;
}

/* A group's labels are added to those of the job: one device must be able to have all of them. */
static void check_labels(const struct posted_job *posted, struct record_faults *faults)
{
    const struct job_spec *spec = &posted->spec;
    for (size_t g = 0; g < posted->groups.count; g++) {
        const struct class_group *group = &posted->groups.group[g];
        char pointer[RECORD_POINTER_MAX];
        snprintf(pointer, sizeof(pointer), "/submodel/groups/%zu/labels", g);
        for (size_t i = 0; i < group->label_count; i++) {
            for (size_t k = 0; k < spec->device_label_count; k++) {
                if (strcmp(group->label[i].key, spec->device_label[k].key) == 0) {
                    record_fault(faults, pointer, "'%s' is in devices.labels too",
                                 group->label[i].key);
                }
            }
        }
        if (group->label_count + spec->device_label_count > LABELS_MAX) {
            record_fault(faults, pointer, "with devices.labels there are more than %d labels",
                         LABELS_MAX);
        }
    }
}

static int resolve_submodel(struct posted_job *posted, struct record_faults *faults,
                            struct err *err)
{
    const struct dataset *train = posted->train;
    const struct submodel_options *options = &posted->spec.submodel;
    const bool local = train == &posted->local;
    check_counts(posted, train, "/dataset/train", faults);
    check_each(train, local, faults);
    if (posted->joint) {
        check_counts(posted, posted->joint, "/submodel/joint/dataset", faults);
    }
    if (faults->count > 0) {
        return ERR_INVALID;
    }
    if (options->group_count > train->classes / 2) {
        record_fault(faults, "/submodel/group_count",
                     "%lld is more than half of the %lld classes of '%s'",
                     (long long)options->group_count, (long long)train->classes, train->name);
        return ERR_INVALID;
    }
    if (train->classes < 4) {
        record_fault(faults, "/strategy", "'submodel' needs 4 classes or more; '%s' has %lld",
                     train->name, (long long)train->classes);
        return ERR_INVALID;
    }
    memcpy(posted->class_samples, train->class_count, sizeof(posted->class_samples));
    int rc = submodel_groups_read(options, train->classes, &posted->groups, faults, err);
    posted->classes =
        (struct event_classes){.samples = posted->class_samples,
                               .count = train->class_count_count,
                               .groups = posted->groups.count > 0 ? &posted->groups : NULL};
    if (posted->joint) { /* its data set may lack the last classes */
        memcpy(posted->joint_samples, posted->joint->class_count, sizeof(posted->joint_samples));
        posted->classes.joint = posted->joint_samples;
    }
    if (!rc) {
        check_labels(posted, faults);
        rc = check_slices(posted, faults, err);
    }
    if (!rc && posted->groups.count > 0) {
        check_epochs(posted, faults);
        rc = plan_widths(posted, faults, err);
    } else if (!rc && !local) { /* for local data the core knows the samples of devices */
        rc = check_plan(posted, faults, err);
    }
    return rc;
}

/* The core divides the samples. */
static int resolve_gossip(struct posted_job *posted, struct record_faults *faults, struct err *err)
{
    (void)err;
    const struct dataset *train = posted->train;
    if (train == &posted->local) {
        return 0; /* nothing to divide */
    }
    check_counts(posted, train, "/dataset/train", faults);
    if (faults->count > 0) {
        return ERR_INVALID;
    }
    memcpy(posted->class_samples, train->class_count, sizeof(posted->class_samples));
    posted->classes =
        (struct event_classes){.samples = posted->class_samples, .count = train->class_count_count};
    return 0;
}

int posted_parts_resolve(struct posted_job *posted, struct record_faults *faults, struct err *err)
{
    static int (*const resolve[STRATEGY_COUNT])(struct posted_job * posted,
                                                struct record_faults * faults, struct err * err) = {
        [STRATEGY_SUBMODEL] = resolve_submodel,
        [STRATEGY_GOSSIP] = resolve_gossip,
    };
    const int strategy = posted->spec.strategy;
    return strategy_has_parts(strategy) ? resolve[strategy](posted, faults, err) : 0;
}
