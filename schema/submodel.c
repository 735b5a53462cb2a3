#include "schema/submodel.h"

const char *const parent_phase_names[] = {
    [PARENT_STEM] = "stem",
    [PARENT_GROUPS] = "groups",
    [PARENT_HARVEST] = "harvest",
    [PARENT_JOINT] = "joint",
    [PARENT_MIXING] = "mixing",
    [PARENT_ENDED] = "ended",
    NULL,
};

const char *const part_state_names[] = {
    [PART_WAITING] = "waiting",
    [PART_TRAINS] = "trains",
    [PART_TRAINED] = "trained",
    [PART_MISSING] = "missing",
    NULL,
};

const char *const joint_units_names[] = {[JOINT_HEAD] = "head", [JOINT_ALL] = "all", NULL};

/* ---- the options ---- */

static const struct field unit_name_element = {.type = FIELD_TEXT, .size = NAME_SIZE};

static const struct field joint_word =
    MEMBER_ENUM(struct submodel_options, joint_units, "units", 0, joint_units_names);
static const struct field joint_fields[] = {
    MEMBER_INT(struct submodel_options, joint_epochs, "epochs", 0, 0, 1000,
               .about = "Epochs in which the harvested model is trained, at a tenth of the rate; "
                        "0: the harvested model is the result."),
    MEMBER_LIST(struct submodel_options, joint_unit, joint_unit_count, "units", 0,
                &unit_name_element, .instead = &joint_word, .min = 1,
                .about = "What these epochs train: the last unit that has parameters (`head`), all "
                         "units (`all`), or the named units.",
                .rule = "names of units, one with parameters at least"),
    MEMBER_FORM(
        struct submodel_options, joint_dataset, "dataset", FIELD_NULLABLE, &name_form, .since = 6,
        .about = "An uploaded data set that these epochs train on, if the training data stay on "
                 "devices. See [Sub-models of local data](#sub-models-of-local-data).",
        .rule = "with `dataset.train.local`, and then unless `epochs` is 0"),
};
static const struct record joint_group = RECORD(struct submodel_options, "joint", joint_fields);

static const struct field options_fields[] = {
    MEMBER_INT(struct submodel_options, stem, "stem", 0, 1, UNITS_MAX - 2,
               .about = "The number of first units, which all sub-models share.",
               .rule = "1 to units - 2"),
    MEMBER_INT(struct submodel_options, stem_epochs, "stem_epochs", 0, 0, 1000,
               .about = "Epochs of the whole model before the groups begin; 0: `init.checkpoint` "
                        "gives the stem.",
               .rule = "0 only with `init.checkpoint`"),
    MEMBER_JSON(struct submodel_options, groups, "groups", FIELD_NULLABLE,
                .shared = "submodel_groups",
                .about = "The classes of each group and its share of the channels; null: planned. "
                         "Always null in an answer: see `GET /v1/jobs/{id}/groups`.",
                .rule = "each class in `replicas` groups; `width` in all groups or in none"),
    MEMBER_INT(struct submodel_options, group_count, "group_count", FIELD_NULLABLE, 2,
               GROUPS_MAX / 2,
               .about = "The number of groups that serve all classes; null: one per device.",
               .rule = "at most half of the classes; null with `groups`"),
    MEMBER_DOUBLE(struct submodel_options, negatives, "negatives", 0, 0, 100,
                  .about =
                      "Samples of other classes that a group trains on for each sample of its own.",
                  .rule = "at least 0.01 without `allow_no_negatives`"),
    MEMBER_BOOL(struct submodel_options, allow_no_negatives, "allow_no_negatives", 0,
                .about = "Groups without samples of other classes: the result is much worse."),
    MEMBER_INT(
        struct submodel_options, replicas, "replicas", 0, 1, 2,
        .about =
            "The number of groups that serve each class. With 2 each group has half of the width."),
    MEMBER_GROUP("joint", 0, &joint_group),
    MEMBER_INT(struct submodel_options, deadline_seconds, "deadline_seconds", FIELD_NULLABLE, 1,
               31536000,
               .about = "Seconds after which the job continues without the groups that have not "
                        "ended; null: the job waits for all."),
};
const struct record submodel_options_record =
    RECORD_WITH(struct submodel_options, "submodel", options_fields,
                .about = "A job of sub-models. See docs/jobs.md.");

/* ---- operations saved ---- */

static const struct field compute_fields[] = {
    MEMBER_DOUBLE(struct submodel_compute, per_sample_least, "per_sample_least", FIELD_NULLABLE, 0,
                  0, .about = "The target's operations divided by those of the widest group."),
    MEMBER_DOUBLE(struct submodel_compute, per_sample_most, "per_sample_most", FIELD_NULLABLE, 0, 0,
                  .about = "The target's operations divided by those of the narrowest group."),
    MEMBER_DOUBLE(struct submodel_compute, total, "total", FIELD_NULLABLE, 0, 0,
                  .about = "The target's operations in `epochs`, divided by those of all parts: "
                           "stem, groups and joint phase."),
    MEMBER_DOUBLE(struct submodel_compute, busiest, "busiest", FIELD_NULLABLE, 0, 0,
                  .about = "The target's operations in `epochs`, divided by those of the device "
                           "that computes most."),
    MEMBER_DOUBLE(struct submodel_compute, flops, "flops", FIELD_NULLABLE, 0, 0,
                  .about = "Operations of all parts. A multiply-add counts two. The backward pass "
                           "of a trained unit counts as two forward passes."),
};
const struct record submodel_compute_record =
    RECORD_WITH(struct submodel_compute, "submodel_compute", compute_fields, .answer = true,
                .about = "What sub-models save compared with training the target alone, as "
                         "factors. See [Sub-models](jobs.md#sub-models).");

/* ---- the row of a parent ---- */

static const struct field number_element = {.type = FIELD_INT, .min = 0, .max = INTEGER_MAX};

static const struct field group_data_fields[] = {
    MEMBER_FORM(struct group_data, sha256, "sha256", FIELD_REQUIRED, &sha256_form),
    MEMBER_INT(struct group_data, own, "own", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct group_data, held, "held", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct group_data, others, "others", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct group_data, drawn, "drawn", FIELD_REQUIRED, 0, INTEGER_MAX),
};
static const struct record group_data_record =
    RECORD(struct group_data, "group_data", group_data_fields);

static const struct field group_fields[] = {
    MEMBER_INT(struct class_group, class_first, "first", FIELD_REQUIRED, 0, GROUP_CLASSES_MAX,
               .about = "Index of its first class in `classes`."),
    MEMBER_INT(struct class_group, class_count, "count", FIELD_REQUIRED, 0, COUNTED_CLASSES_MAX),
    MEMBER_DOUBLE(struct class_group, width, "width", FIELD_REQUIRED, 0, 1),
    MEMBER_MAP(struct class_group, label, label_count, "labels", 0, &label_record),
    MEMBER_FORM(struct class_group, device.text, "device", FIELD_NULLABLE | FIELD_SKIP_EMPTY,
                &device_id_form),
    MEMBER_RECORD(struct class_group, data, "data", FIELD_SKIP_EMPTY, &group_data_record),
};
static const struct record group_record = RECORD(struct class_group, "class_group", group_fields);

static const struct field part_fields[] = {
    MEMBER_ENUM(struct parent_part, state, "state", FIELD_REQUIRED, part_state_names),
    MEMBER_FORM(struct parent_part, job.text, "job", FIELD_NULLABLE, &job_id_form),
    MEMBER_INT(struct parent_part, attempts, "attempts", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct parent_part, reseeded, "reseeded", 0, 0, INTEGER_MAX),
    MEMBER_FORM(struct parent_part, checkpoint.text, "checkpoint", FIELD_NULLABLE,
                &checkpoint_id_form),
    MEMBER_FORM(struct parent_part, sha256, "sha256", FIELD_NULLABLE, &sha256_form),
    MEMBER_INT(struct parent_part, bytes, "size_bytes", 0, 0, INTEGER_MAX),
    MEMBER_DOUBLE(struct parent_part, flops_per_sample, "flops_per_sample", 0, 0, 0),
    MEMBER_INT(struct parent_part, counted, "counted", 0, 0, INTEGER_MAX),
};
static const struct record part_record = RECORD(struct parent_part, "parent_part", part_fields);

static const struct field device_work_fields[] = {
    MEMBER_FORM(struct device_work, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_DOUBLE(struct device_work, flops, "flops", FIELD_REQUIRED, 0, 0),
};
static const struct record device_work_record =
    RECORD(struct device_work, "device_work", device_work_fields);

static const struct field work_fields[] = {
    MEMBER_RECORDS(struct submodel_work, device, device_count, "devices", 0, &device_work_record),
    MEMBER_DOUBLE(struct submodel_work, flops, "flops", 0, 0, 0),
};
static const struct record work_record = RECORD(struct submodel_work, "submodel_work", work_fields);

static const struct field parent_fields[] = {
    MEMBER_FORM(struct parent, job.text, "job", FIELD_REQUIRED, &job_id_form),
    MEMBER_INT(struct parent, revision, "revision", 0, 0, INTEGER_MAX),
    MEMBER_ENUM(struct parent, phase, "phase", FIELD_REQUIRED, parent_phase_names),
    MEMBER_BOOL(struct parent, paused, "paused", 0),
    MEMBER_LIST(struct parent, class_samples, class_count, "class_samples", 0, &number_element),
    MEMBER_LIST(struct parent, joint_samples, joint_class_count, "joint_samples", FIELD_SKIP_EMPTY,
                &number_element),
    MEMBER_RECORDS(struct parent, groups.group, groups.count, "groups", 0, &group_record),
    MEMBER_LIST(struct parent, groups.class_of, groups.class_count, "classes", 0, &number_element),
    MEMBER_INT(struct parent, divisions, "divisions", FIELD_SKIP_EMPTY, 0, INTEGER_MAX),
    MEMBER_RECORD(struct parent, stem, "stem", FIELD_REQUIRED, &part_record),
    MEMBER_RECORD(struct parent, joint, "joint", FIELD_REQUIRED, &part_record),
    MEMBER_RECORDS(struct parent, part, groups.count, "parts", 0, &part_record),
    MEMBER_TIME(struct parent, groups_until_ms, "groups_until", FIELD_NULLABLE),
    MEMBER_INT(struct parent, groups_left_ms, "groups_left_ms", 0, 0, INTEGER_MAX),
    MEMBER_FORM(struct parent, harvest.text, "harvest", FIELD_NULLABLE, &checkpoint_id_form),
    MEMBER_FORM(struct parent, harvest_sha256, "harvest_sha256", FIELD_NULLABLE, &sha256_form),
    MEMBER_INT(struct parent, harvest_bytes, "harvest_size_bytes", 0, 0, INTEGER_MAX),
    MEMBER_RECORD(struct parent, work, "work", 0, &work_record),
    MEMBER_RECORD(struct parent, compute, "compute", 0, &submodel_compute_record),
    MEMBER_RECORD(struct parent, gossip, "gossip", FIELD_SKIP_EMPTY, &gossip_state_record),
};
const struct record parent_record = RECORD(struct parent, "parent", parent_fields);

size_t parent_missing(const struct parent *parent, int64_t class_of[COUNTED_CLASSES_MAX])
{
    size_t lost[COUNTED_CLASSES_MAX] = {0}, all[COUNTED_CLASSES_MAX] = {0}, count = 0;
    for (size_t g = 0; g < parent->groups.count; g++) {
        const struct class_group *group = &parent->groups.group[g];
        for (int64_t c = 0; c < group->class_count; c++) {
            const int64_t class = parent->groups.class_of[group->class_first + c];
            all[class]++;
            lost[class] += parent->part[g].state == PART_MISSING;
        }
    }
    for (size_t class = 0; class < parent->class_count; class ++) {
        if (all[class] > 0 && lost[class] == all[class]) {
            class_of[count++] = (int64_t) class;
        }
    }
    return count;
}
