#include "schema/replicas.h"

static const struct field copy_fields[] = {
    MEMBER_FORM(struct replica_copy, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_INT(struct replica_copy, version, "version", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct replica_copy, generation, "generation", FIELD_REQUIRED, 0, INTEGER_MAX),
};
static const struct record copy_record = RECORD(struct replica_copy, "replica_copy", copy_fields);

static const struct field unit_fields[] = {
    MEMBER_INT(struct replica_unit, unit, "unit", FIELD_REQUIRED, 0, UNITS_MAX - 1),
    MEMBER_RECORDS(struct replica_unit, copy, "copies", FIELD_REQUIRED, &copy_record, copy_count),
};
static const struct record unit_record = RECORD(struct replica_unit, "replica_unit", unit_fields);

static const struct field loss_fields[] = {
    MEMBER_LIST(struct replica_loss, device, "devices", FIELD_REQUIRED, &device_id_element,
                device_count),
    MEMBER_INT(struct replica_loss, resume_version, "resume_version", FIELD_REQUIRED, 0,
               INTEGER_MAX),
    MEMBER_INT(struct replica_loss, steps_lost, "steps_lost", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_BOOL(struct replica_loss, can_continue, "can_continue", FIELD_REQUIRED),
};
static const struct record loss_record = RECORD(struct replica_loss, "replica_loss", loss_fields);

static const struct field replicas_fields[] = {
    MEMBER_INT(struct replicas, step, "step", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct replicas, neighbor_version, "neighbor_version", FIELD_REQUIRED, 0,
               INTEGER_MAX),
    MEMBER_INT(struct replicas, center_version, "center_version", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_RECORDS(struct replicas, unit, "units", FIELD_REQUIRED, &unit_record, unit_count),
    MEMBER_RECORDS(struct replicas, single, "single", FIELD_REQUIRED, &loss_record, single_count),
    MEMBER_RECORDS(struct replicas, pair, "double", FIELD_REQUIRED, &loss_record, pair_count),
};
const struct record replicas_record = RECORD(struct replicas, "replicas", replicas_fields);

static const struct field question_fields[] = {
    MEMBER_FORM(struct plan_question, job.text, "job", FIELD_REQUIRED, &job_id_form),
    MEMBER_LIST(struct plan_question, without, "without", 0, &device_id_element, without_count),
};
const struct record plan_question_record =
    RECORD(struct plan_question, "plan_question", question_fields);

static const struct field answer_fields[] = {
    MEMBER_RECORD(struct plan_answer, preview, "plan", FIELD_REQUIRED, &job_preview_record),
    MEMBER_INT(struct plan_answer, resume_version, "resume_version", FIELD_REQUIRED, 0,
               INTEGER_MAX),
    MEMBER_INT(struct plan_answer, steps_lost, "steps_lost", FIELD_REQUIRED, 0, INTEGER_MAX),
};
const struct record plan_answer_record = RECORD(struct plan_answer, "plan_answer", answer_fields);
