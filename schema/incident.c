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
                  .about = "Seconds from the failed device's last sign of life or progress, or "
                           "from a start of the coordinator, until the failure is certain."),
    MEMBER_DOUBLE(struct incident, decide_seconds, "decide", FIELD_REQUIRED, 0, 0,
                  .about = "Seconds from the certain failure to the next plan."),
    MEMBER_DOUBLE(struct incident, fetch_seconds, "fetch", FIELD_REQUIRED, 0, 0,
                  .about = "Seconds from the next plan until the slowest device has its units."),
    MEMBER_DOUBLE(struct incident, rebuild_seconds, "rebuild", FIELD_REQUIRED, 0, 0,
                  .about = "Seconds from `fetched_at` until all devices may run."),
    MEMBER_DOUBLE(struct incident, resume_seconds, "resume", FIELD_REQUIRED, 0, 0,
                  .about = "Seconds from `ready_at` until the first new step completes."),
};
static const struct record seconds_group =
    RECORD_WITH(struct incident, "incident_seconds", seconds_fields,
                .about = "Seconds of each phase; 0: the phase is not over.");

static const struct field timeline_fields[] = {
    MEMBER_TIME(struct incident, suspected_ms, "suspected_at", FIELD_NULLABLE,
                .about = "When the failed device last showed life or progress."),
    MEMBER_TIME(struct incident, detected_ms, "detected_at", FIELD_NULLABLE,
                .about = "When the failure was certain."),
    MEMBER_TIME(struct incident, decided_ms, "decided_at", FIELD_NULLABLE,
                .about = "When the next plan was made."),
    MEMBER_TIME(struct incident, fetched_ms, "fetched_at", FIELD_NULLABLE,
                .about = "When the slowest device had its units."),
    MEMBER_TIME(struct incident, ready_ms, "ready_at", FIELD_NULLABLE,
                .about = "When all devices were allowed to run."),
    MEMBER_TIME(struct incident, resumed_ms, "resumed_at", FIELD_NULLABLE,
                .about = "When the first new step completed."),
};
static const struct record timeline_group =
    RECORD_WITH(struct incident, "incident_timeline", timeline_fields, .answer = true,
                .about = "Times of day; null: not reached yet.");

static const struct field incident_fields[] = {
    MEMBER_FORM(struct incident, id.text, "id", FIELD_REQUIRED, &incident_id_form,
                .about = "Made by the coordinator."),
    MEMBER_INT(struct incident, revision, "revision", 0, 0, INTEGER_MAX,
               .about = "Rises with each change."),
    MEMBER_FORM(struct incident, job.text, "job", FIELD_REQUIRED, &job_id_form),
    PART_OF_FIELDS(struct incident),
    MEMBER_ENUM(struct incident, state, "state", FIELD_REQUIRED, incident_state_names,
                .about = "resolved: the job trains again; abandoned: the job ended or was paused "
                         "before it trained again."),
    MEMBER_ENUM(struct incident, cause, "cause", FIELD_REQUIRED, incident_cause_names,
                .about = "The cause of the first failure."),
    MEMBER_TEXT(struct incident, message, "message", FIELD_NULLABLE,
                .about = "One sentence about the first failure."),
    MEMBER_RECORDS(
        struct incident, device, device_count, "devices", 0, &device_record_of,
        .about =
            "The failed devices, the first 8: those known when the incident opened and at each "
            "later failure before training resumed. After a power cut some may be missing."),
    MEMBER_INT(struct incident, generation_before, "generation_before", 0, 0, INTEGER_MAX,
               .about = "The generation that failed first."),
    MEMBER_INT(struct incident, generation_after, "generation_after", FIELD_NULLABLE, 0,
               INTEGER_MAX, .about = "The generation that resumed training; null: none yet."),
    MEMBER_INT(struct incident, failures, "failures", 0, 0, INTEGER_MAX,
               .about = "Generations that failed before training resumed."),
    MEMBER_INT(struct incident, step_reached, "step_reached", 0, 0, INTEGER_MAX,
               .about = "The furthest step that a device reported."),
    MEMBER_INT(struct incident, resume_version, "resume_version", 0, 0, INTEGER_MAX,
               .about = "The version that training resumed from."),
    MEMBER_INT(struct incident, steps_redone, "steps_redone", 0, 0, INTEGER_MAX,
               .about = "Retrained steps: `step_reached` minus `resume_version`. At least 0, "
                        "because a version on disk may be newer than the last report."),
    MEMBER_INT(struct incident, bytes_moved, "bytes_moved", 0, 0, INTEGER_MAX,
               .about = "Bytes of state fetched from devices and the center."),
    MEMBER_GROUP("seconds", 0, &seconds_group),
    MEMBER_GROUP("timeline", 0, &timeline_group),
};
const struct record incident_record = RECORD_WITH(
    struct incident, "incident", incident_fields, .answer = true,
    .about = "One failure of a running job, from the first suspicion to resumed training.");
