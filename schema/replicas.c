#include "schema/replicas.h"

static const struct field copy_fields[] = {
    MEMBER_FORM(struct replica_copy, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_INT(struct replica_copy, version, "version", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct replica_copy, generation, "generation", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The generation that computed the copy."),
};
static const struct record copy_record = RECORD(struct replica_copy, "replica_copy", copy_fields);

static const struct field unit_fields[] = {
    MEMBER_INT(struct replica_unit, unit, "unit", FIELD_REQUIRED, 0, UNITS_MAX - 1),
    MEMBER_RECORDS(struct replica_unit, copy, copy_count, "copies", FIELD_REQUIRED, &copy_record,
                   .about = "The copies, newest first."),
};
static const struct record unit_record = RECORD(struct replica_unit, "replica_unit", unit_fields);

static const struct field loss_fields[] = {
    MEMBER_LIST(struct replica_loss, device, device_count, "devices", FIELD_REQUIRED,
                &device_id_element),
    MEMBER_INT(struct replica_loss, resume_version, "resume_version", FIELD_REQUIRED, 0,
               INTEGER_MAX),
    MEMBER_INT(struct replica_loss, steps_lost, "steps_lost", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_BOOL(
        struct replica_loss, can_continue, "can_continue", FIELD_REQUIRED,
        .about =
            "True: enough devices and memory would remain. False: the job would wait for devices."),
};
static const struct record loss_record =
    RECORD_WITH(struct replica_loss, "replica_loss", loss_fields,
                .about = "What follows if these devices are lost now.");

static const struct field replicas_fields[] = {
    MEMBER_INT(struct replicas, step, "step", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The last step that every stage completed."),
    MEMBER_INT(struct replicas, neighbor_version, "neighbor_version", FIELD_REQUIRED, 0,
               INTEGER_MAX,
               .about = "The newest committed version: it survives the loss of any one device."),
    MEMBER_INT(struct replicas, center_version, "center_version", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The newest version of which the coordinator has every unit."),
    MEMBER_RECORDS(struct replicas, unit, unit_count, "units", FIELD_REQUIRED, &unit_record),
    MEMBER_RECORDS(struct replicas, single, single_count, "single", FIELD_REQUIRED, &loss_record,
                   .about = "What follows from the loss of one device of the plan."),
    MEMBER_RECORDS(struct replicas, pair, pair_count, "double", FIELD_REQUIRED, &loss_record,
                   .about = "What follows from the loss of two devices at once."),
};
const struct record replicas_record =
    RECORD_WITH(struct replicas, "replicas", replicas_fields,
                .about = "The holders of each version of a job, and the cost of failures now.");

static const struct field part_fields[] = {
    MEMBER_FORM(struct part_replicas, job.text, "job", FIELD_REQUIRED, &job_id_form),
    PART_OF_FIELDS(struct part_replicas),
    MEMBER_RECORD(struct part_replicas, copies, "copies", FIELD_REQUIRED, &replicas_record),
};
const struct record part_replicas_record =
    RECORD_WITH(struct part_replicas, "part_replicas", part_fields, .answer = true,
                .about = "The copies of a part of a job.");
