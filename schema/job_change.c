#include "schema/job_change.h"

#include "schema/parameter_server.h"

static const struct field cut_element = {.type = FIELD_INT, .min = 1, .max = UNITS_MAX - 1};

static const struct field share_end_element = {
    .type = FIELD_INT, .min = 0, .max = MICRO_BATCHES_MAX};

static const struct field replan_request_fields[] = {
    MEMBER_LIST_OPTIONAL(struct replan_request, cut, cut_count, has_cuts, "cuts", 0, &cut_element,
                         .about = "Stage boundaries; []: one stage; null: the planner chooses."),
    MEMBER_LIST(struct replan_request, device, device_count, "devices", FIELD_NULLABLE,
                &device_id_element,
                .about = "Devices in the order of the stages; null: the planner chooses."),
    MEMBER_INT(struct replan_request, generation, "generation", FIELD_NULLABLE, 1, INTEGER_MAX,
               .about = "The earlier plan of the job whose stage boundaries and devices the new "
                        "plan takes; null: none.",
               .rule = "not with `cuts` or `devices`"),
    MEMBER_INT(
        struct replan_request, servers, "servers", FIELD_NULLABLE | FIELD_SKIP_EMPTY, 1,
        SERVERS_OF_JOB_MAX,
        .about =
            "`parameter_server`: the number of devices that keep the model; null: as the job says.",
        .rule = "not with `cuts` or `generation`"),
    MEMBER_LIST(struct replan_request, share_end, share_end_count, "share_ends",
                FIELD_NULLABLE | FIELD_SKIP_EMPTY, &share_end_element,
                .about = "`parameter_server`: one past the last micro-batch of each device; 0: the "
                         "device computes none. Devices after those of the cuts keep no units.",
                .rule = "with `cuts` and `devices`, as many as devices"),
};
const struct record replan_request_record =
    RECORD(struct replan_request, "replan_request", replan_request_fields);

static const struct field periods_fields[] = {
    MEMBER_INT(struct replication_periods, neighbor_every, "neighbor_every", FIELD_REQUIRED, 0,
               STEPS_MAX),
    MEMBER_INT(struct replication_periods, center_every, "center_every", FIELD_REQUIRED, 0,
               STEPS_MAX),
};
const struct record replication_periods_record =
    RECORD_WITH(struct replication_periods, "replication_periods", periods_fields, .answer = true);

const char *const check_trigger_names[] = {
    [CHECK_AT_STEP] = "step",
    [CHECK_DRIFT] = "drift",
    [CHECK_DEVICE_JOINED] = "device_joined",
    [CHECK_DEVICE_CORDONED] = "device_cordoned",
    [CHECK_DEVICE_DRAINED] = "device_drained",
    [CHECK_SLOWER] = "slower",
    [CHECK_RECOVERED] = "recovered",
    NULL,
};

const char *const check_verdict_names[] = {
    [CHECK_REPLANS] = "replans",
    [CHECK_SAME_PLAN] = "same_plan",
    [CHECK_TOO_LITTLE_GAIN] = "too_little_gain",
    [CHECK_TOO_DEAR] = "too_dear",
    [CHECK_COOLS_DOWN] = "cools_down",
    [CHECK_REJECTED] = "rejected",
    [CHECK_NO_PLAN] = "no_plan",
    [CHECK_ROLLS_BACK] = "rolls_back",
    NULL,
};

static const struct field check_fields[] = {
    MEMBER_INT(struct job_check, step, "step", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The step at which the coordinator checked the plan."),
    MEMBER_ENUM(struct job_check, trigger, "trigger", FIELD_REQUIRED, check_trigger_names,
                .about = "Why the coordinator checked it. See [Drift](#drift)."),
    MEMBER_DOUBLE(struct job_check, gain_seconds, "gain_seconds", FIELD_REQUIRED, 0, 0,
                  .about = "Seconds per step that the best other plan would save."),
    MEMBER_DOUBLE(struct job_check, cost_seconds, "cost_seconds", FIELD_REQUIRED, 0, 0,
                  .about = "Seconds that the change would take."),
    MEMBER_ENUM(struct job_check, verdict, "verdict", FIELD_REQUIRED, check_verdict_names,
                .about = "The result of the check. See [Drift](#drift)."),
};
const struct record job_check_record =
    RECORD_WITH(struct job_check, "job_check", check_fields, .answer = true);

static const struct field trial_fields[] = {
    MEMBER_INT(struct job_trial, generation, "generation", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The generation of the plan on trial."),
    MEMBER_DOUBLE(struct job_trial, step_seconds, "step_seconds", FIELD_REQUIRED, 0, 0,
                  .about = "The step time measured over the last steps of the plan before it."),
    MEMBER_DOUBLE(struct job_trial, expected_seconds, "expected_step_seconds", FIELD_ADDED, 0, 0,
                  .about = "The expected step time of the plan on trial."),
    MEMBER_RECORD(struct job_trial, before, "before", FIELD_REQUIRED, &replan_request_record,
                  .about = "The stage boundaries and devices of the plan before it."),
};
const struct record job_trial_record =
    RECORD_WITH(struct job_trial, "job_trial", trial_fields, .answer = true);

static const struct field seconds_element = {.type = FIELD_DOUBLE};
static const struct field rejected_fields[] = {
    MEMBER_RECORD(struct job_rejected, stages, "stages", FIELD_REQUIRED, &replan_request_record,
                  .about = "The stage boundaries and devices."),
    MEMBER_LIST(struct job_rejected, stage_seconds, stage_count, "stage_seconds", FIELD_REQUIRED,
                &seconds_element, .about = "Measured seconds per micro-batch of each stage."),
};
const struct record job_rejected_record =
    RECORD_WITH(struct job_rejected, "job_rejected", rejected_fields, .answer = true);
