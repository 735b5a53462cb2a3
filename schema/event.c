#include "schema/event.h"

static const struct field event_fields[] = {
    MEMBER_TEXT(struct public_event, id, "id", FIELD_REQUIRED,
                .about = "Sortable. Last-Event-ID resumes after it."),
    MEMBER_TEXT(struct public_event, type, "type", FIELD_REQUIRED, .shared = "event_type"),
    MEMBER_TEXT(struct public_event, subject, "subject", FIELD_NULLABLE,
                .about = "The device, job, plan, incident or checkpoint."),
    MEMBER_FORM(struct public_event, job.text, "job", FIELD_NULLABLE | FIELD_SKIP_EMPTY,
                &job_id_form,
                .about = "The job that the subject is, or belongs to. Left out: none."),
    PART_OF_FIELDS(struct public_event),
    MEMBER_TEXT(struct public_event, message, "message", 0, .about = "One sentence for people."),
    MEMBER_TIME(struct public_event, created_ms, "created_at", FIELD_NULLABLE),
};
const struct record public_event_record =
    RECORD_WITH(struct public_event, "event", event_fields, .answer = true);
