#include "schema/dataset.h"

static const struct field dataset_fields[] = {
    MEMBER_FORM(struct dataset, name, "name", FIELD_REQUIRED, &name_form),
    MEMBER_INT(struct dataset, revision, "revision", 0, 0, INTEGER_MAX),
    MEMBER_FORM(struct dataset, sha256, "sha256", FIELD_REQUIRED, &sha256_form),
    MEMBER_INT(struct dataset, bytes, "size_bytes", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct dataset, samples, "samples", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct dataset, height, "height", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_INT(struct dataset, width, "width", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_INT(struct dataset, channels, "channels", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_FORM(struct dataset, dtype, "dtype", FIELD_REQUIRED, &word_form),
    MEMBER_INT(struct dataset, classes, "classes", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_INT(struct dataset, positions, "positions", FIELD_SKIP_EMPTY, 2, POSITIONS_MAX),
    MEMBER_FORM(struct dataset, class_names_sha256, "class_names_sha256", FIELD_NULLABLE,
                &sha256_form),
    MEMBER_TEXT(struct dataset, reading, "reading", FIELD_NULLABLE),
    MEMBER_TIME(struct dataset, created_ms, "created_at", FIELD_NULLABLE),
};
const struct record dataset_record = RECORD(struct dataset, "dataset", dataset_fields);

static const struct field checkpoint_fields[] = {
    MEMBER_FORM(struct checkpoint, id.text, "id", FIELD_REQUIRED, &checkpoint_id_form),
    MEMBER_FORM(struct checkpoint, job.text, "job", FIELD_NULLABLE, &job_id_form),
    MEMBER_INT(struct checkpoint, revision, "revision", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct checkpoint, version, "version", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_FORM(struct checkpoint, sha256, "sha256", FIELD_REQUIRED, &sha256_form),
    MEMBER_INT(struct checkpoint, bytes, "size_bytes", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_TIME(struct checkpoint, created_ms, "created_at", FIELD_NULLABLE),
    MEMBER_BOOL(struct checkpoint, damaged, "damaged", FIELD_SKIP_EMPTY),
};
const struct record checkpoint_record = RECORD(struct checkpoint, "checkpoint", checkpoint_fields);

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
    MEMBER_TIME(struct model_row, created_ms, "created_at", FIELD_NULLABLE),
};
const struct record model_row_record = RECORD(struct model_row, "model_row", model_row_fields);
