#include "schema/event.h"

#include <string.h>

const char *const public_event_types[] = {
    "average_stored",      "blob_damaged",
    "checkpoint_deleted",  "checkpoint_stored",
    "dataset_deleted",     "dataset_stored",
    "device_accepted",     "device_cordoned",
    "device_disconnected", "device_drained",
    "device_draining",     "device_enrolled",
    "device_joined",       "device_leaving",
    "device_lost",         "device_online",
    "device_rekeyed",      "device_removed",
    "device_renamed",      "device_shared",
    "device_suspect",      "device_uncordoned",
    "device_undrained",    "export_failed",
    "generation_failed",   "group_lost",
    "group_refused",       "group_started",
    "groups_divided",      "incident_abandoned",
    "incident_deleted",    "incident_opened",
    "incident_resolved",   "job_cancelled",
    "job_cancelling",      "job_deleted",
    "job_failed",          "job_paused",
    "job_pausing",         "job_phase",
    "job_planning",        "job_preparing",
    "job_queued",          "job_recovering",
    "job_replanning",      "job_running",
    "job_stalled",         "job_stops_early",
    "job_succeeded",       "job_waiting_for_devices",
    "model_deleted",       "model_stored",
    "plan_made",           NULL,
};

int public_event_type(const char *text)
{
    for (int type = 0; public_event_types[type]; type++) {
        if (strcmp(public_event_types[type], text) == 0) {
            return type;
        }
    }
    return -1;
}

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
