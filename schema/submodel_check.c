/* The rules of a job of sub-models: between its fields, and for its groups. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schema/check.h"
#include "schema/job.h"
#include "schema/job_check.h"
#include "schema/submodel.h"

#define WIDTH_TOLERANCE 1e-4 /* of the sum of the widths */
#define NEGATIVES_MIN 0.01   /* with less a group may see no sample of another class */

/* ---- fields ---- */

static void check_others(struct check *check, const struct job_spec *spec)
{
    static const char none[] = "is not for jobs of sub-models";
    if (spec->steps > 0) {
        check_fault(check, "/steps", "%s; use epochs", none);
    }
    if (spec->cut_count > 0) {
        check_fault(check, "/cuts", "%s: each part has a plan of its own", none);
    }
    if (spec->freeze_count > 0) {
        check_fault(check, "/freeze", "%s: groups freeze the stem", none);
    }
    if (json_object_size(spec->kernels) > 0) {
        check_fault(check, "/kernels", "%s, except {}: sub-models have other shapes", none);
    }
    if (spec->has_view) {
        check_fault(check, "/view", "%s: each group has its own", none);
    }
    if (spec->init_except_count > 0) {
        check_fault(check, "/init/except", "%s", none);
    }
    if (spec->has_stop) {
        check_fault(check, "/stop", "%s: each part has evaluations of its own", none);
    }
    if (spec->has_checkpoint) {
        check_fault(check, "/checkpoint",
                    "%s: the stem, each group and the joint phase leave a checkpoint already",
                    none);
    }
}

static void check_options(struct check *check, const struct job_spec *spec)
{
    const struct submodel_options *options = &spec->submodel;
    if (options->stem_epochs == 0 && spec->init_checkpoint.text[0] == '\0' && !job_is_local(spec)) {
        check_fault(check, "/submodel/stem_epochs", "must be above 0 without init.checkpoint");
    }
    if (options->groups && options->group_count > 0) {
        check_fault(check, "/submodel/group_count", "give the groups or their number, not both");
    }
    if (options->negatives < NEGATIVES_MIN && !options->allow_no_negatives && !job_is_local(spec)) {
        check_fault(check, "/submodel/negatives",
                    "must be at least %g: a group that sees no other classes cannot tell them from "
                    "its own; set allow_no_negatives to train without them",
                    NEGATIVES_MIN);
    }
}

/* The data stay on the devices. So no device can fetch all samples, and a group takes its negatives
 * from its own device. */
static void check_local(struct check *check, const struct job_spec *spec)
{
    static const char stays[] = "with data that stay on devices";
    const struct submodel_options *options = &spec->submodel;
    if (spec->init_checkpoint.text[0] == '\0') {
        check_fault(check, "/init/checkpoint", "is needed %s: no device can train the stem", stays);
    }
    if (options->stem_epochs > 0) {
        check_fault(check, "/submodel/stem_epochs",
                    "must be 0 %s: the stem is that of init.checkpoint", stays);
    }
    if (options->groups) {
        check_fault(check, "/submodel/groups",
                    "must be null %s: groups are planned from what devices have; use group_count",
                    stays);
    }
    if (options->negatives < NEGATIVES_MIN) {
        check_fault(check, "/submodel/negatives", "must be at least %g %s", NEGATIVES_MIN, stays);
    }
    if (options->joint_epochs > 0 && options->joint_dataset[0] == '\0') {
        check_fault(check, "/submodel/joint/dataset",
                    "is needed %s: an uploaded data set for the joint phase; or set joint.epochs "
                    "to 0",
                    stays);
    }
    if (options->joint_epochs == 0 && options->joint_dataset[0] != '\0') {
        check_fault(check, "/submodel/joint/dataset", "is of no use: joint.epochs is 0");
    }
    if (spec->test_local.holdout > 0) {
        check_fault(check, "/dataset/test/holdout",
                    "is not for jobs of sub-models: groups hold out samples for their quality gate "
                    "already; upload a test set");
    }
}

int submodel_check(const struct job_spec *spec, struct record_faults *faults, struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    if (spec->strategy == STRATEGY_SUBMODEL) {
        check_others(&check, spec);
        check_options(&check, spec);
        if (job_is_local(spec)) {
            check_local(&check, spec);
        } else if (spec->submodel.joint_dataset[0] != '\0') {
            check_fault(&check, "/submodel/joint/dataset",
                        "is for data that stay on devices (dataset.train.local) only");
        }
    } else if (spec->has_submodel) {
        check_fault(&check, "/submodel", "is for strategy 'submodel' only");
    }
    return check.rc;
}

/* ---- the joint phase ---- */

static bool is_named(const struct submodel_options *options, const char *unit)
{
    size_t at = 0;
    while (at < options->joint_unit_count && strcmp(options->joint_unit[at].text, unit) != 0) {
        at++;
    }
    return at < options->joint_unit_count;
}

bool submodel_joint_frozen(const struct submodel_options *options, const struct model *model,
                           bool frozen[MODEL_UNITS_MAX])
{
    size_t head = model->unit_count;
    bool trains = false;
    do {
        head--;
    } while (head > 0 && !model_trains(model, head));
    for (size_t u = 0; u < model->unit_count; u++) {
        frozen[u] = options->joint_units == JOINT_HEAD  ? u != head
                    : options->joint_units == JOINT_ALL ? false
                                                        : !is_named(options, model->unit[u].name);
        trains = trains || (!frozen[u] && model_trains(model, u));
    }
    return trains;
}

int submodel_joint_check(const struct submodel_options *options, const struct model *model,
                         struct record_faults *faults, struct err *err)
{
    static const char pointer[] = "/submodel/joint/units";
    struct check check = {.faults = faults, .err = err};
    bool frozen[MODEL_UNITS_MAX];
    if (options->joint_units != JOINT_NAMED) {
        return 0;
    }
    int rc = job_units_check(options->joint_unit, options->joint_unit_count, model, pointer, faults,
                             err);
    if (rc == 0 && !submodel_joint_frozen(options, model, frozen)) {
        check_fault(&check, pointer, "names no unit that has parameters: nothing is left to train");
    }
    return rc ? rc : check.rc;
}

/* ---- groups ---- */

struct given_group {
    int64_t class_of[COUNTED_CLASSES_MAX];
    size_t class_count;
    double width; /* 0: chosen by the planner */
    struct label label[LABELS_MAX];
    size_t label_count;
};

static const struct field class_element = {
    .type = FIELD_INT, .min = 0, .max = COUNTED_CLASSES_MAX - 1};
static const struct field given_fields[] = {
    MEMBER_LIST(struct given_group, class_of, class_count, "classes", FIELD_REQUIRED,
                &class_element),
    MEMBER_DOUBLE(struct given_group, width, "width", FIELD_NULLABLE, 1e-3, 1),
    MEMBER_MAP(struct given_group, label, label_count, "labels", 0, &label_record),
};
static const struct record given_record = RECORD(struct given_group, "group", given_fields);

/* Add the classes of one group to the list of all groups. served: the number of groups per
 * class. */
static void add_group(struct check *check, const struct given_group *given, int64_t class_count,
                      int64_t *served, struct class_groups *out)
{
    const size_t index = out->count++;
    struct class_group *group = &out->group[index];
    char pointer[48];
    *group = (struct class_group){.class_first = (int64_t)out->class_count,
                                  .width = given->width,
                                  .label_count = given->label_count};
    memcpy(group->label, given->label, sizeof(given->label));
    (void)snprintf(pointer, sizeof(pointer), "/submodel/groups/%zu/classes", index);
    if (given->class_count < 2) {
        check_fault(check, pointer, "a group needs at least 2 classes");
    }
    for (size_t i = 0; i < given->class_count; i++) {
        const int64_t class = given->class_of[i];
        bool again = false;
        for (size_t k = 0; k < i; k++) {
            again = again || given->class_of[k] == class;
        }
        (void)snprintf(pointer, sizeof(pointer), "/submodel/groups/%zu/classes/%zu", index, i);
        if (class >= class_count) {
            check_fault(check, pointer,
                        "unknown class %" PRId64 "; the data set has classes 0 to %" PRId64, class,
                        class_count - 1);
        } else if (again) {
            check_fault(check, pointer, "class %" PRId64 " is there twice", class);
        } else if (out->class_count == GROUP_CLASSES_MAX) {
            check_fault(check, pointer, "all groups together may have at most %d classes",
                        GROUP_CLASSES_MAX);
        } else {
            served[class]++;
            out->class_of[out->class_count++] = class;
        }
    }
    group->class_count = (int64_t)out->class_count - group->class_first;
}

static void check_served(struct check *check, const int64_t *served, int64_t class_count,
                         int64_t replicas)
{
    for (int64_t class = 0; class < class_count && !check->rc; class ++) {
        if (served[class] != replicas) {
            check_fault(check, "/submodel/groups",
                        "each class must be in as many groups as replicas says (%" PRId64
                        "), but class %" PRId64 " is in %" PRId64,
                        replicas, class, served[class]);
        }
    }
}

static void check_widths(struct check *check, const struct class_groups *groups)
{
    size_t given = 0;
    double sum = 0;
    for (size_t g = 0; g < groups->count; g++) {
        given += groups->group[g].width > 0;
        sum += groups->group[g].width;
    }
    if (given > 0 && given < groups->count) {
        check_fault(check, "/submodel/groups", "give the width of every group, or of none");
    } else if (given > 0 && fabs(sum - 1) > WIDTH_TOLERANCE) {
        check_fault(check, "/submodel/groups", "the widths add up to %.6g; they must add up to 1",
                    sum);
    }
}

int submodel_groups_read(const struct submodel_options *options, int64_t class_count,
                         struct class_groups *out, struct record_faults *faults, struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    const size_t count = options->groups ? json_array_size(options->groups) : 0;
    const size_t most = GROUPS_MAX / 2 * (size_t)options->replicas;
    int64_t served[COUNTED_CLASSES_MAX] = {0};
    memset(out, 0, sizeof(*out));
    if (!options->groups) {
        return 0;
    }
    if (count < 2 || count > most) {
        check_fault(&check, "/submodel/groups", "must be a list of 2 to %zu groups", most);
        return check.rc;
    }
    for (size_t i = 0; i < count; i++) {
        struct given_group given = {0};
        char pointer[48];
        (void)snprintf(pointer, sizeof(pointer), "/submodel/groups/%zu", i);
        int rc = record_read(&given_record, json_array_get(options->groups, i), pointer, &given,
                             faults, err);
        if (rc) {
            return rc;
        }
        add_group(&check, &given, class_count, served, out);
    }
    check_served(&check, served, class_count, options->replicas);
    check_widths(&check, out);
    return check.rc;
}

json_t *submodel_groups_write(const struct class_groups *groups)
{
    json_t *out = json_array();
    for (size_t g = 0; out && g < groups->count; g++) {
        const struct class_group *group = &groups->group[g];
        struct given_group given = {.class_count = (size_t)group->class_count,
                                    .width = group->width,
                                    .label_count = group->label_count};
        memcpy(given.class_of, &groups->class_of[group->class_first],
               given.class_count * sizeof(given.class_of[0]));
        memcpy(given.label, group->label, sizeof(given.label));
        if (json_array_append_new(out, record_write(&given_record, &given)) != 0) {
            json_decref(out);
            out = NULL;
        }
    }
    return out;
}
