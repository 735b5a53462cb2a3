#include "schema/submodel_preview.h"

static const struct field class_element = {
    .type = FIELD_INT, .min = 0, .max = COUNTED_CLASSES_MAX - 1};

static const struct field group_fields[] = {
    MEMBER_INT(struct preview_group, group, "group", FIELD_REQUIRED, 0, GROUPS_MAX - 1,
               .about = "The group's number, from 0. Planned groups begin in this order, given "
                        "ones by their operations, the most first."),
    MEMBER_LIST(struct preview_group, class_of, class_count, "classes", FIELD_REQUIRED,
                &class_element),
    MEMBER_DOUBLE(struct preview_group, width, "width", FIELD_REQUIRED, 0, 1,
                  .about = "The group's share of the channels."),
    MEMBER_INT(struct preview_group, samples, "samples", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Training samples in an epoch of the group, negatives included."),
    MEMBER_DOUBLE(struct preview_group, flops_per_sample, "flops_per_sample", FIELD_REQUIRED, 0, 0,
                  .about = "Operations for one training sample, counted as in `compute`."),
    MEMBER_FORM(struct preview_group, device.text, "device", FIELD_REQUIRED | FIELD_NULLABLE,
                &device_id_form,
                .about =
                    "The device that would train the group; null: a hypothetical device, or none."),
    MEMBER_TEXT(struct preview_group, name, "name", FIELD_REQUIRED | FIELD_NULLABLE,
                .about = "The device's name; null: no device."),
    MEMBER_INT(struct preview_group, memory_bytes, "memory_bytes", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Total bytes of memory that the group needs on its device."),
    MEMBER_DOUBLE(struct preview_group, begins_seconds, "begins_seconds", FIELD_REQUIRED, 0, 0,
                  .about = "Seconds from the start of the phase to the start of the group. Above "
                           "0: the group waits for its device."),
    MEMBER_DOUBLE(struct preview_group, seconds, "seconds", FIELD_REQUIRED | FIELD_NULLABLE, 0, 0,
                  .about = "Seconds of the group's training; null: no device can train it."),
    MEMBER_TEXT(struct preview_group, failure, "failure", FIELD_REQUIRED | FIELD_NULLABLE,
                .about = "Why no device can train the group; null: a device can."),
};
static const struct record group_record =
    RECORD_WITH(struct preview_group, "preview_group", group_fields, .answer = true,
                .about = "A group and the device that would train it.");

static const char *const way_names[] = {[WAY_NONE] = "none",
                                        [WAY_SUBMODEL] = "submodel",
                                        [WAY_PIPELINE] = "pipeline",
                                        [WAY_SINGLE] = "single",
                                        NULL};

static const struct field preview_fields[] = {
    MEMBER_RECORDS(struct submodel_preview, group, group_count, "groups", FIELD_REQUIRED,
                   &group_record),
    MEMBER_DOUBLE_OPTIONAL(struct submodel_preview, stem_seconds, runs, "stem_seconds",
                           FIELD_REQUIRED, 0, 0,
                           .about = "Seconds of the stem's phase; null: there is no plan."),
    MEMBER_DOUBLE_OPTIONAL(struct submodel_preview, groups_seconds, runs, "groups_seconds",
                           FIELD_REQUIRED, 0, 0,
                           .about = "Seconds until the last group has ended."),
    MEMBER_DOUBLE_OPTIONAL(struct submodel_preview, joint_seconds, runs, "joint_seconds",
                           FIELD_REQUIRED, 0, 0),
    MEMBER_DOUBLE_OPTIONAL(struct submodel_preview, total_seconds, runs, "total_seconds",
                           FIELD_REQUIRED, 0, 0,
                           .about = "Seconds of all phases, without evaluations."),
    MEMBER_RECORD(struct submodel_preview, compute, "compute", FIELD_REQUIRED,
                  &submodel_compute_record),
    MEMBER_DOUBLE(struct submodel_preview, pipeline_seconds, "pipeline_seconds",
                  FIELD_REQUIRED | FIELD_NULLABLE, 0, 0,
                  .about = "Seconds to train the target for the same epochs in a pipeline with the "
                           "plan of `stages`; null: there is no plan."),
    MEMBER_DOUBLE(struct submodel_preview, single_seconds, "single_seconds",
                  FIELD_REQUIRED | FIELD_NULLABLE, 0, 0,
                  .about = "Seconds to train the target for the same epochs on the fastest device "
                           "alone; null: it fits on none."),
    MEMBER_FORM(struct submodel_preview, single_device.text, "single_device",
                FIELD_REQUIRED | FIELD_NULLABLE, &device_id_form,
                .about = "The device of `single_seconds`."),
    MEMBER_TEXT(struct submodel_preview, single_name, "single_name",
                FIELD_REQUIRED | FIELD_NULLABLE, .about = "The name of this device."),
    MEMBER_ENUM(
        struct submodel_preview, fastest, "fastest", FIELD_REQUIRED, way_names,
        .about =
            "The way with the fewest seconds, whatever its accuracy; none: no way has a plan."),
};
const struct record submodel_preview_record = RECORD_WITH(
    struct submodel_preview, "submodel_preview", preview_fields, .answer = true,
    .about = "The prediction for a job of sub-models: groups on devices, seconds of its phases, "
             "savings, and the seconds of the target in a pipeline and on one device.");
