#include "schema/brief.h"

#include "schema/device.h"
#include "schema/id.h"
#include "schema/job.h"
#include "schema/job_progress.h"

static const struct field job_fields[] = {
    MEMBER_FORM(struct job, id.text, "id", FIELD_REQUIRED, &job_id_form),
    MEMBER_INT(struct job, revision, "revision", 0, 0, INTEGER_MAX),
    MEMBER_FORM(struct job, spec.name, "name", FIELD_NULLABLE, &name_form, .about = "`spec.name`."),
    MEMBER_FORM(struct job, spec.model.name, "model", FIELD_NULLABLE, &name_form,
                .about = "`spec.model.name`."),
    MEMBER_ENUM(struct job, state, "state", FIELD_REQUIRED, job_state_names),
    MEMBER_TEXT(struct job, state_reason, "state_reason", FIELD_NULLABLE),
    MEMBER_TEXT(struct job, message, "message", FIELD_NULLABLE),
    MEMBER_FORM(struct job, parent.text, "parent", FIELD_NULLABLE | FIELD_SKIP_EMPTY, &job_id_form,
                .about = "The job that this one is a part of. Left out: none."),
    MEMBER_ENUM(struct job, part, "part", FIELD_SKIP_EMPTY, job_part_names,
                .about = "Which part of `parent` the job is. Left out: no part."),
    MEMBER_INT(struct job, group, "group", FIELD_SKIP_EMPTY, 0, GROUPS_MAX,
               .about = "The group's number, from 0, if the job is a group. Left out: 0."),
    MEMBER_RECORD(struct job, progress, "progress", 0, &job_progress_record),
    MEMBER_INT(struct job, generation, "generation", 0, 0, INTEGER_MAX),
    MEMBER_BOOL(struct job, stalled, "stalled", 0),
    MEMBER_FORM(struct job, checkpoint.text, "checkpoint", FIELD_NULLABLE, &checkpoint_id_form),
    MEMBER_TIME(struct job, created_ms, "created_at", FIELD_NULLABLE),
    MEMBER_TIME(struct job, started_ms, "started_at", FIELD_NULLABLE),
    MEMBER_TIME(struct job, ended_ms, "ended_at", FIELD_NULLABLE),
};
const struct record job_brief_record =
    RECORD_WITH(struct job, "job_short", job_fields, .answer = true,
                .about = "A job in a list with `view=short`; `GET /v1/jobs/{id}` has the rest.");

static const struct field device_fields[] = {
    MEMBER_FORM(struct device, id.text, "id", FIELD_REQUIRED, &device_id_form),
    MEMBER_INT(struct device, revision, "revision", 0, 0, INTEGER_MAX),
    MEMBER_FORM(struct device, name, "name", FIELD_REQUIRED, &name_form),
    MEMBER_ENUM(struct device, state, "state", FIELD_REQUIRED, device_state_names),
    MEMBER_BOOL(struct device, cordoned, "cordoned", 0),
    MEMBER_BOOL(struct device, draining, "draining", 0),
    MEMBER_BOOL(struct device, leaving, "leaving", 0),
    MEMBER_BOOL(struct device, drained, "drained", 0),
    MEMBER_MAP(struct device, label, label_count, "labels", 0, &label_record, .shared = "labels"),
    MEMBER_FORM(struct device, job.text, "job", FIELD_NULLABLE, &job_id_form),
    MEMBER_DOUBLE(struct device, busy_share, "busy_share", 0, 0, 1),
    MEMBER_TIME(struct device, last_seen_ms, "last_seen_at", FIELD_NULLABLE),
};
const struct record device_brief_record = RECORD_WITH(
    struct device, "device_short", device_fields, .answer = true,
    .about = "A device in a list with `view=short`; `GET /v1/devices/{id}` has the rest.");
