#include "schema/incident.h"

const char *const incident_cause_names[] = {
    [INCIDENT_DEVICE_LOST] = "device_lost",
    [INCIDENT_DEVICE_RESTARTED] = "device_restarted",
    [INCIDENT_LINK] = "link",
    [INCIDENT_STALLED] = "stalled",
    [INCIDENT_ERROR] = "error",
    [INCIDENT_DEADLINE] = "deadline",
    NULL,
};

const char *const incident_state_names[] = {
    [INCIDENT_OPEN] = "open",
    [INCIDENT_RESOLVED] = "resolved",
    [INCIDENT_ABANDONED] = "abandoned",
    NULL,
};

static const struct field device_fields[] = {
    MEMBER_FORM(struct incident_device, id.text, "id", FIELD_REQUIRED, &device_id_form),
    MEMBER_TEXT(struct incident_device, name, "name", FIELD_REQUIRED),
};
static const struct record device_record_of =
    RECORD(struct incident_device, "incident_device", device_fields);

static const struct field seconds_fields[] = {
    MEMBER_DOUBLE(struct incident, detect_seconds, "detect", FIELD_REQUIRED, 0, 0,
                  .about = "From the last sign of life or progress of the failed device, or from a "
                           "start of the coordinator, until the failure is certain."),
    MEMBER_DOUBLE(struct incident, decide_seconds, "decide", FIELD_REQUIRED, 0, 0,
                  .about = "From that to the next plan."),
    MEMBER_DOUBLE(struct incident, fetch_seconds, "fetch", FIELD_REQUIRED, 0, 0,
                  .about = "From that until the slowest device has its units."),
    MEMBER_DOUBLE(struct incident, rebuild_seconds, "rebuild", FIELD_REQUIRED, 0, 0,
                  .about = "From that until all devices may run."),
    MEMBER_DOUBLE(struct incident, resume_seconds, "resume", FIELD_REQUIRED, 0, 0,
                  .about = "From that until the first new step completes."),
};
static const struct record seconds_group =
    RECORD_WITH(struct incident, "incident_seconds", seconds_fields,
                .about = "Of each phase; 0 before it is over.");

static const struct field timeline_fields[] = {
    MEMBER_TIME(struct incident, suspected_ms, "suspected_at", FIELD_NULLABLE,
                .about = "The last sign of life or progress."),
    MEMBER_TIME(struct incident, detected_ms, "detected_at", FIELD_NULLABLE,
                .about = "The failure is certain."),
    MEMBER_TIME(struct incident, decided_ms, "decided_at", FIELD_NULLABLE,
                .about = "The next plan."),
    MEMBER_TIME(struct incident, fetched_ms, "fetched_at", FIELD_NULLABLE,
                .about = "The slowest device has its units."),
    MEMBER_TIME(struct incident, ready_ms, "ready_at", FIELD_NULLABLE,
                .about = "All devices may run."),
    MEMBER_TIME(struct incident, resumed_ms, "resumed_at", FIELD_NULLABLE,
                .about = "The first new step completes."),
};
static const struct record timeline_group =
    RECORD_WITH(struct incident, "incident_timeline", timeline_fields, .answer = true,
                .about = "Times of day; null before.");

static const struct field incident_fields[] = {
    MEMBER_FORM(struct incident, id.text, "id", FIELD_REQUIRED, &incident_id_form,
                .about = "Made by the coordinator."),
    MEMBER_INT(struct incident, revision, "revision", 0, 0, INTEGER_MAX,
               .about = "Rises with each change."),
    MEMBER_FORM(struct incident, job.text, "job", FIELD_REQUIRED, &job_id_form),
    PART_OF_FIELDS(struct incident),
    MEMBER_ENUM(struct incident, state, "state", FIELD_REQUIRED, incident_state_names,
                .about =
                    "resolved: the job trains again; abandoned: it ended or was paused before."),
    MEMBER_ENUM(struct incident, cause, "cause", FIELD_REQUIRED, incident_cause_names,
                .about = "Of the first failure."),
    MEMBER_TEXT(struct incident, message, "message", FIELD_NULLABLE,
                .about = "One sentence about the first failure."),
    MEMBER_RECORDS(struct incident, device, device_count, "devices", 0, &device_record_of,
                   .about = "The known failed devices when the incident opened and at each failure "
                            "on the way, the first 8. After a power cut some may be missing."),
    MEMBER_INT(struct incident, generation_before, "generation_before", 0, 0, INTEGER_MAX,
               .about = "The generation that failed first."),
    MEMBER_INT(struct incident, generation_after, "generation_after", FIELD_NULLABLE, 0,
               INTEGER_MAX, .about = "The generation that trains again; null before."),
    MEMBER_INT(struct incident, failures, "failures", 0, 0, INTEGER_MAX,
               .about = "Generations that failed on the way."),
    MEMBER_INT(struct incident, step_reached, "step_reached", 0, 0, INTEGER_MAX,
               .about = "The furthest reported step."),
    MEMBER_INT(struct incident, resume_version, "resume_version", 0, 0, INTEGER_MAX,
               .about = "The version that training resumed from."),
    MEMBER_INT(struct incident, steps_redone, "steps_redone", 0, 0, INTEGER_MAX,
               .about = "Retrained steps: `step_reached` less `resume_version`, at least 0, "
                        "because a version on disk may be newer than the last report."),
    MEMBER_INT(struct incident, bytes_moved, "bytes_moved", 0, 0, INTEGER_MAX,
               .about = "State fetched from devices and the center."),
    MEMBER_GROUP("seconds", 0, &seconds_group),
    MEMBER_GROUP("timeline", 0, &timeline_group),
};
const struct record incident_record = RECORD_WITH(
    struct incident, "incident", incident_fields, .answer = true,
    .about = "One failure of a running job, from the first suspicion to resumed training.");
