#include "schema/dataset.h"

static const struct field class_count_element = {.type = FIELD_INT, .min = 0, .max = INTEGER_MAX};

static const struct field dataset_fields[] = {
    MEMBER_FORM(struct dataset, name, "name", FIELD_REQUIRED, &name_form),
    MEMBER_INT(struct dataset, revision, "revision", 0, 0, INTEGER_MAX),
    MEMBER_FORM(struct dataset, sha256, "sha256", FIELD_REQUIRED, &sha256_form,
                .about = "The hash of the stored safetensors file."),
    MEMBER_INT(struct dataset, bytes, "size_bytes", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct dataset, samples, "samples", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct dataset, height, "height", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_INT(struct dataset, width, "width", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_INT(struct dataset, channels, "channels", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_FORM(struct dataset, dtype, "dtype", FIELD_REQUIRED, &word_form),
    MEMBER_INT(struct dataset, classes, "classes", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_INT(struct dataset, positions, "positions", FIELD_SKIP_EMPTY, 2, POSITIONS_MAX,
               .about = "Labels of a sample. Left out: one."),
    MEMBER_FORM(struct dataset, class_names_sha256, "class_names_sha256", FIELD_NULLABLE,
                &sha256_form,
                .about = "The hash of the list of class names, as compact JSON "
                         "(`/v1/datasets/{name}/class_names`); null: the classes have no names."),
    MEMBER_LIST(struct dataset, class_count, class_count_count, "class_counts", FIELD_SKIP_EMPTY,
                &class_count_element,
                .about = "Samples of each class, by class number. Left out: not counted, because "
                         "the data set has more than 1,024 classes or several labels a sample, or "
                         "an earlier version stored it. Uploading it again counts them."),
    MEMBER_TEXT(
        struct dataset, reading, "reading", FIELD_NULLABLE,
        .about =
            "The parameters that converted sounds to samples at the upload; null for other data."),
    MEMBER_TIME(struct dataset, created_ms, "created_at", FIELD_NULLABLE),
};
const struct record dataset_record =
    RECORD_WITH(struct dataset, "dataset", dataset_fields, .answer = true);

static const struct field checkpoint_fields[] = {
    MEMBER_FORM(struct checkpoint, id.text, "id", FIELD_REQUIRED, &checkpoint_id_form),
    MEMBER_FORM(struct checkpoint, job.text, "job", FIELD_NULLABLE, &job_id_form,
                .about = "The job that trained the checkpoint; null: uploaded."),
    PART_OF_FIELDS(struct checkpoint),
    MEMBER_INT(struct checkpoint, revision, "revision", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct checkpoint, version, "version", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The step after which the state was stored; 0: uploaded."),
    MEMBER_FORM(struct checkpoint, sha256, "sha256", FIELD_REQUIRED, &sha256_form),
    MEMBER_INT(struct checkpoint, bytes, "size_bytes", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_TIME(struct checkpoint, created_ms, "created_at", FIELD_NULLABLE),
    MEMBER_BOOL(struct checkpoint, damaged, "damaged", FIELD_SKIP_EMPTY,
                .about = "Only in the answer for one checkpoint, not in lists. True: the stored "
                         "content has another hash. Uploading the content again repairs it."),
};
const struct record checkpoint_record =
    RECORD_WITH(struct checkpoint, "checkpoint", checkpoint_fields, .answer = true,
                .about = "A trained model in the center, or uploaded weights.");

static const struct field center_unit_fields[] = {
    MEMBER_FORM(struct center_unit, job.text, "job", FIELD_REQUIRED, &job_id_form),
    MEMBER_INT(struct center_unit, version, "version", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct center_unit, unit, "unit", FIELD_REQUIRED, 0, UNITS_MAX - 1),
    MEMBER_INT(struct center_unit, generation, "generation", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_FORM(struct center_unit, sha256, "sha256", FIELD_REQUIRED, &sha256_form),
    MEMBER_INT(struct center_unit, bytes, "size_bytes", FIELD_REQUIRED, 0, INTEGER_MAX),
};
const struct record center_unit_record =
    RECORD(struct center_unit, "center_unit", center_unit_fields);

static const struct field model_row_fields[] = {
    MEMBER_TEXT(struct model_row, name, "name", FIELD_REQUIRED),
    MEMBER_FORM(struct model_row, sha256, "sha256", FIELD_REQUIRED, &sha256_form),
    MEMBER_INT(struct model_row, revision, "revision", 0, 0, INTEGER_MAX),
    MEMBER_TIME(struct model_row, created_ms, "created_at", FIELD_NULLABLE,
                .about = "null: a model of the zoo."),
};
const struct record model_row_record =
    RECORD_WITH(struct model_row, "model_row", model_row_fields, .answer = true);
