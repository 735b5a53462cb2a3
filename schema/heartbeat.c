#include "schema/heartbeat.h"

#define SECONDS_MAX 1e9

const char *const metric_name_names[] = {
    [METRIC_LOSS] = "loss",
    [METRIC_STEP_SECONDS] = "step_seconds",
    [METRIC_TEST_LOSS] = "test_loss",
    [METRIC_TEST_ACCURACY] = "test_accuracy",
    [METRIC_RECALL] = "recall",
    [METRIC_LEAST_RECALL] = "least_recall",
    [METRIC_PULL_SECONDS] = "pull_seconds",
    [METRIC_PUSH_SECONDS] = "push_seconds",
    [METRIC_SEGMENTS_PULL] = "segments_pull",
    [METRIC_SEGMENTS_PUSH] = "segments_push",
    [METRIC_MIX_SECONDS] = "mix_seconds",
    [METRIC_DISTANCE] = "distance",
    [METRIC_PERIOD_CV] = "period_cv",
    [METRIC_GAP_SECONDS] = "gap_seconds",
    NULL,
};

const char *const peer_trouble_names[] = {
    [PEER_REFUSED] = "refused",
    [PEER_BROKEN] = "broken",
    [PEER_STALLED] = "stalled",
    NULL,
};

const char *const round_state_names[] = {
    [ROUND_NONE] = "none",           [ROUND_OPEN] = "open",     [ROUND_COMMITTED] = "committed",
    [ROUND_ABANDONED] = "abandoned", [ROUND_PAUSED] = "paused", NULL,
};

/* Measurements have no bounds here. The core ignores and counts impossible values. The rest of such
 * a heartbeat still renews the lease of the device. */
static const struct field unit_seconds_fields[] = {
    MEMBER_INT(struct unit_seconds, unit, "unit", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_DOUBLE(struct unit_seconds, forward_seconds, "forward_seconds", FIELD_REQUIRED, 0, 0),
    MEMBER_DOUBLE(struct unit_seconds, backward_seconds, "backward_seconds", FIELD_REQUIRED, 0, 0),
};
static const struct record unit_seconds_record =
    RECORD_WITH(struct unit_seconds, "unit_seconds", unit_seconds_fields,
                .about = "Mean seconds per micro-batch.");

const char *const link_kind_names[] = {
    [LINK_TENSOR] = "tensor",
    [LINK_REPLICA] = "replica",
    [LINK_FETCH] = "fetch",
    [LINK_SHARED] = "shared",
    NULL,
};

static const struct field stage_seconds_fields[] = {
    MEMBER_DOUBLE(struct stage_seconds, step, "step", 0, 0, 0),
    MEMBER_DOUBLE(struct stage_seconds, compute, "compute", 0, 0, 0),
    MEMBER_DOUBLE(struct stage_seconds, stopped, "stopped", 0, 0, 0,
                  .about = "Of computing: other programs or a quota had the processor."),
    MEMBER_DOUBLE(struct stage_seconds, wait_input, "wait_input", 0, 0, 0),
    MEMBER_DOUBLE(struct stage_seconds, wait_gradient, "wait_gradient", 0, 0, 0),
    MEMBER_DOUBLE(struct stage_seconds, wait_room, "wait_room", 0, 0, 0),
};
static const struct record stage_seconds_record = RECORD_WITH(
    struct stage_seconds, "stage_seconds", stage_seconds_fields,
    .about = "Mean seconds per step of the last window: the step, and of it computing, waiting for "
             "an activation, for a gradient, and for room to send.");

static const struct field idle_probe_fields[] = {
    MEMBER_DOUBLE(struct idle_probe, gemm_gflops, "gemm_gflops", FIELD_REQUIRED, 0, 0),
    MEMBER_DOUBLE(struct idle_probe, memory_bytes_per_second, "memory_bytes_per_second",
                  FIELD_REQUIRED, 0, 0),
    MEMBER_DOUBLE(struct idle_probe, processor_share, "processor_share", 0, 0, 1),
    MEMBER_INT(struct idle_probe, age_ms, "age_ms", FIELD_REQUIRED, -INTEGER_MAX, INTEGER_MAX,
               .about = "Since it was taken."),
};
static const struct record idle_probe_record =
    RECORD_WITH(struct idle_probe, "idle_probe", idle_probe_fields,
                .about = "A short probe that an idle device repeats.");

static const struct field link_fields[] = {
    MEMBER_FORM(struct link_report, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_ENUM(struct link_report, kind, "kind", FIELD_SKIP_EMPTY, link_kind_names, .since = 2,
                .about = "What was sent: tensors (default), replicas, or units that the device "
                         "fetched from the other. shared, only of the coordinator: tensors "
                         "beside others, each as if it had been alone."),
    MEMBER_FORM(struct link_report, codec, "codec", FIELD_NULLABLE | FIELD_SKIP_EMPTY, &word_form,
                .since = 2, .about = "Of the tensors; null: none."),
    MEMBER_INT(struct link_report, count, "count", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_DOUBLE(struct link_report, seconds_sum, "seconds_sum", FIELD_REQUIRED, 0, 0),
    MEMBER_DOUBLE(struct link_report, bytes_sum, "bytes_sum", FIELD_REQUIRED, 0, 0),
    MEMBER_DOUBLE(struct link_report, bytes_squared_sum, "bytes_squared_sum", FIELD_REQUIRED, 0, 0),
    MEMBER_DOUBLE(struct link_report, bytes_seconds_sum, "bytes_seconds_sum", FIELD_REQUIRED, 0, 0),
};
static const struct record link_record =
    RECORD_WITH(struct link_report, "link_report", link_fields,
                .about = "Real transfers to a device since the last report: sums for a fit of "
                         "seconds = a + bytes / B.");

static const struct field metric_fields[] = {
    MEMBER_INT(struct metric, step, "step", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_ENUM(struct metric, name, "name", FIELD_REQUIRED, metric_name_names),
    MEMBER_DOUBLE(struct metric, value, "value", FIELD_REQUIRED, 0, 0),
};
const struct record metric_record = RECORD(struct metric, "metric", metric_fields);

static const struct field holding_fields[] = {
    MEMBER_FORM(struct holding, job.text, "job", FIELD_REQUIRED, &job_id_form),
    MEMBER_INT(struct holding, generation, "generation", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "In which it was computed."),
    MEMBER_INT(struct holding, version, "version", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct holding, unit, "unit", FIELD_REQUIRED, 0, UNITS_MAX - 1),
    MEMBER_FORM(struct holding, sha256, "sha256", FIELD_REQUIRED, &sha256_form),
    MEMBER_INT(struct holding, bytes, "size_bytes", FIELD_REQUIRED, 0, INTEGER_MAX),
};
static const struct record holding_record =
    RECORD_WITH(struct holding, "holding", holding_fields,
                .about = "A verified snapshot that the device holds.");

static const struct field error_fields[] = {
    MEMBER_FORM(struct device_error, code, "code", FIELD_REQUIRED, &word_form),
    MEMBER_TEXT(struct device_error, message, "message", FIELD_REQUIRED),
};
static const struct record error_record = RECORD(struct device_error, "device_error", error_fields);

static const struct field peer_report_fields[] = {
    MEMBER_FORM(struct peer_report, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_ENUM(struct peer_report, kind, "kind", FIELD_REQUIRED, peer_trouble_names,
                .about = "refused: no process listens there; broken: the connection broke; "
                         "stalled: no answer in time."),
    MEMBER_INT(struct peer_report, for_ms, "for_ms", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Since the first failure."),
};
static const struct record peer_report_record =
    RECORD_WITH(struct peer_report, "peer_report", peer_report_fields,
                .about = "A device that this one cannot reach.");

static const struct field rounds_fields[] = {
    MEMBER_INT(struct heartbeat, round_neighbor, "neighbor", FIELD_SKIP_EMPTY, 0, INTEGER_MAX),
    MEMBER_INT(struct heartbeat, round_center, "center", FIELD_SKIP_EMPTY, 0, INTEGER_MAX),
};
static const struct record rounds_group =
    RECORD_WITH(struct heartbeat, "heartbeat_rounds", rounds_fields,
                .about = "Stage 0: the versions of its open rounds of replication; 0: none.");

/* Zero and empty members are not written: each device sends one heartbeat per second, and most
 * heartbeats have little to report. */
static const struct field heartbeat_fields[] = {
    MEMBER_FORM(struct heartbeat, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_FORM(struct heartbeat, boot, "boot", FIELD_REQUIRED, &word_form),
    MEMBER_INT(struct heartbeat, revision, "revision", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "Of the assignment it acts on."),
    MEMBER_FORM(struct heartbeat, job.text, "job", FIELD_NULLABLE | FIELD_SKIP_EMPTY, &job_id_form),
    MEMBER_INT(struct heartbeat, generation, "generation", FIELD_SKIP_EMPTY, 0, INTEGER_MAX),
    MEMBER_FORM(struct heartbeat, plan.text, "plan", FIELD_NULLABLE | FIELD_SKIP_EMPTY,
                &plan_id_form, .about = "The plan of the generation."),
    MEMBER_INT(struct heartbeat, highest_generation, "highest_generation", FIELD_SKIP_EMPTY, 0,
               INTEGER_MAX, .about = "The highest ever seen."),
    MEMBER_ENUM(struct heartbeat, phase, "phase", FIELD_REQUIRED, phase_names),
    MEMBER_INT(struct heartbeat, step, "step", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "The last step that its stage completed."),
    MEMBER_INT(struct heartbeat, stopped_version, "stopped_version", FIELD_SKIP_EMPTY, 0,
               INTEGER_MAX, .about = "With phase stopped or finished."),
    MEMBER_BOOL(struct heartbeat, unevaluated, "unevaluated", FIELD_SKIP_EMPTY, .since = 6,
                .about = "Stage 0: that is the last step of the job, and a stop has abandoned its "
                         "evaluation."),
    MEMBER_FORM(struct heartbeat, address, "address", FIELD_NULLABLE | FIELD_SKIP_EMPTY,
                &origin_form),
    MEMBER_FORM(struct heartbeat, challenge, "challenge", FIELD_NULLABLE | FIELD_SKIP_EMPTY,
                &word_form),
    MEMBER_RECORDS(struct heartbeat, unit_seconds, unit_seconds_count, "unit_seconds",
                   FIELD_SKIP_EMPTY, &unit_seconds_record, .about = "Means of the last window."),
    MEMBER_DOUBLE(struct heartbeat, update_seconds, "update_seconds", FIELD_SKIP_EMPTY, 0, 0),
    MEMBER_RECORD(struct heartbeat, stage_seconds, "stage_seconds", FIELD_SKIP_EMPTY,
                  &stage_seconds_record, .since = 2),
    MEMBER_RECORDS(struct heartbeat, link, link_count, "links", FIELD_SKIP_EMPTY, &link_record),
    MEMBER_INT(struct heartbeat, resident_bytes, "resident_bytes", FIELD_SKIP_EMPTY, 0,
               INTEGER_MAX),
    MEMBER_INT(struct heartbeat, free_memory_bytes, "free_memory_bytes", FIELD_SKIP_EMPTY, 0,
               INTEGER_MAX, .since = 2,
               .about = "Free now, beside what the agent has taken; 0: unknown."),
    MEMBER_OPTIONAL(struct heartbeat, probe, has_probe, "probe", FIELD_SKIP_EMPTY,
                    &idle_probe_record, .since = 2),
    MEMBER_BOOL(struct heartbeat, leaving, "leaving", FIELD_SKIP_EMPTY, .since = 2,
                .about = "The device goes away on purpose: plans leave it at a step boundary."),
    MEMBER_OPTIONAL(struct heartbeat, early_stop, has_early_stop, "early_stop", FIELD_SKIP_EMPTY,
                    &early_stop_record, .since = 4,
                    .about = "How the stage judges the evaluations of a job with `stop`."),
    MEMBER_INT(struct heartbeat, bytes_moved, "bytes_moved", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "State fetched for this generation."),
    MEMBER_DOUBLE(struct heartbeat, fetch_seconds, "fetch_seconds", FIELD_SKIP_EMPTY, 0,
                  SECONDS_MAX, .about = "How long fetching all units of this generation took."),
    MEMBER_INT(
        struct heartbeat, busy_ms, "busy_ms", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
        .about =
            "How long the compute thread has been in its present task. While it waits for a task: "
            "the time since bytes moved last. 0: it has no task, and no bytes moved for 2 s."),
    MEMBER_GROUP("rounds", FIELD_SKIP_EMPTY, &rounds_group),
    MEMBER_RECORDS(struct heartbeat, peer_report, peer_report_count, "peer_reports",
                   FIELD_SKIP_EMPTY, &peer_report_record,
                   .about = "Devices that this one cannot reach."),
    MEMBER_LIST(struct heartbeat, relayed, relayed_count, "relayed", FIELD_SKIP_EMPTY,
                &device_id_element, .since = 4,
                .about = "Devices that this one reaches through a relay only."),
    MEMBER_TEXT(struct heartbeat, kernels, "kernels", FIELD_NULLABLE | FIELD_SKIP_EMPTY,
                .about = "Of the stage's convolutions, as measured: a letter for each pass. "
                         "docs/protocol.md explains it."),
    MEMBER_INT(struct heartbeat, replica_bytes_sent, "replica_bytes_sent", FIELD_SKIP_EMPTY, 0,
               INTEGER_MAX, .about = "Since its boot."),
    MEMBER_INT(struct heartbeat, replica_bytes_written, "replica_bytes_written", FIELD_SKIP_EMPTY,
               0, INTEGER_MAX, .about = "Since its boot."),
    MEMBER_OPTIONAL(struct heartbeat, mix, has_mix, "mix", FIELD_SKIP_EMPTY, &mix_report_record,
                    .since = 6, .about = "Of a group in a job of strategy `gossip`."),
    MEMBER_RECORDS(struct heartbeat, metric, metric_count, "metrics", FIELD_SKIP_EMPTY,
                   &metric_record, .about = "Kept by the agent until a reply acknowledges them."),
    MEMBER_FORM(struct heartbeat, metrics_job.text, "metrics_job",
                FIELD_NULLABLE | FIELD_SKIP_EMPTY, &job_id_form,
                .about =
                    "The job that they were measured in; null: job, in its highest_generation."),
    MEMBER_INT(struct heartbeat, metrics_generation, "metrics_generation", FIELD_SKIP_EMPTY, 0,
               INTEGER_MAX, .about = "With metrics_job."),
    MEMBER_BOOL(struct heartbeat, all_holdings, "all_holdings", FIELD_SKIP_EMPTY,
                .about = "holdings is the whole list."),
    MEMBER_RECORDS(struct heartbeat, holding, holding_count, "holdings", FIELD_SKIP_EMPTY,
                   &holding_record),
    MEMBER_OPTIONAL(struct heartbeat, error, has_error, "error", FIELD_SKIP_EMPTY, &error_record),
};
const struct record heartbeat_record = RECORD_WITH(
    struct heartbeat, "heartbeat", heartbeat_fields,
    .about = "An absent member is zero, empty, false or null: agents leave out such members.");

static const struct field round_fields[] = {
    MEMBER_INT(struct round, version, "version", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_ENUM(
        struct round, state, "state", FIELD_REQUIRED, round_state_names,
        .about = "paused: do not open rounds of this kind; the coordinator's disk is nearly full."),
};
static const struct record round_record = RECORD(struct round, "round", round_fields);

static const struct field reply_rounds_fields[] = {
    MEMBER_RECORD(struct heartbeat_reply, neighbor, "neighbor", 0, &round_record),
    MEMBER_RECORD(struct heartbeat_reply, center, "center", 0, &round_record),
};
static const struct record reply_rounds_group =
    RECORD_WITH(struct heartbeat_reply, "reply_rounds", reply_rounds_fields,
                .about = "The state of the rounds of the heartbeat.");

static const struct field reply_fields[] = {
    MEMBER_INT(struct heartbeat_reply, interval_ms, "interval_ms", FIELD_REQUIRED, 1, 3600000),
    MEMBER_INT(struct heartbeat_reply, revision, "revision", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Of the device's assignment."),
    MEMBER_BOOL(struct heartbeat_reply, reenroll, "reenroll", FIELD_REQUIRED,
                .about = "The coordinator does not know this device or boot."),
    MEMBER_INT(struct heartbeat_reply, start_id, "start_id", 0, 0, INTEGER_MAX,
               .about = "Another number after each start of the coordinator; 0: unknown."),
    MEMBER_BOOL(struct heartbeat_reply, drained, "drained", FIELD_SKIP_EMPTY, .since = 4,
                .about = "The device drains or leaves, and nothing needs it any more."),
    MEMBER_GROUP("rounds", FIELD_SKIP_EMPTY, &reply_rounds_group),
};
const struct record heartbeat_reply_record =
    RECORD_WITH(struct heartbeat_reply, "heartbeat_reply", reply_fields,
                .about = "If rounds are absent, no round of the heartbeat has changed its state.");
