#include "schema/plan.h"

#include "libtrain/quant/codec.h"

const char *const plan_state_names[] = {
    [PLAN_PREPARING] = "preparing", [PLAN_RUNNING] = "running",     [PLAN_STOPPING] = "stopping",
    [PLAN_DONE] = "done",           [PLAN_DISCARDED] = "discarded", NULL,
};

const char *const plan_reason_names[] = {
    [PLAN_FIRST] = "first",
    [PLAN_REQUESTED] = "requested",
    [PLAN_RESUMED] = "resumed",
    [PLAN_DEVICE_LOST] = "device_lost",
    [PLAN_PREPARE_FAILED] = "prepare_failed",
    [PLAN_RESTARTED] = "restarted",
    [PLAN_LINK] = "link",
    [PLAN_STALLED] = "stalled",
    [PLAN_DEVICE_JOINED] = "device_joined",
    [PLAN_TUNED] = "tuned",
    [PLAN_DRIFT] = "drift",
    [PLAN_DEVICE_LEFT] = "device_left",
    [PLAN_DRAINED] = "drained",
    [PLAN_ROLLED_BACK] = "rolled_back",
    [PLAN_DATA_APPENDED] = "data_appended",
    NULL,
};

bool plan_reason_is_planned(int reason)
{
    return reason == PLAN_REQUESTED || reason == PLAN_DEVICE_JOINED || reason == PLAN_DRIFT ||
           reason == PLAN_DEVICE_LEFT || reason == PLAN_DRAINED || reason == PLAN_ROLLED_BACK ||
           reason == PLAN_DATA_APPENDED;
}

const char *const plan_verdict_names[] = {
    [VERDICT_NONE] = "none",
    [VERDICT_KEPT] = "kept",
    [VERDICT_ROLLED_BACK] = "rolled_back",
    [VERDICT_SUPERSEDED] = "superseded",
    [VERDICT_FAILED] = "failed",
    NULL,
};

static const struct field memory_fields[] = {
    MEMBER_INT(struct plan_memory, parameters_bytes, "parameters_bytes", 0, 0, INTEGER_MAX,
               .about = "Parameters and, twice, batch-norm's statistics; with `async` also the "
                        "versions that the job keeps."),
    MEMBER_INT(struct plan_memory, gradients_bytes, "gradients_bytes", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct plan_memory, optimizer_bytes, "optimizer_bytes", 0, 0, INTEGER_MAX,
               .about = "State of the optimizer, such as momentum."),
    MEMBER_INT(struct plan_memory, activations_bytes, "activations_bytes", 0, 0, INTEGER_MAX,
               .about = "Activations kept for the micro-batches in flight."),
    MEMBER_INT(struct plan_memory, workspace_bytes, "workspace_bytes", 0, 0, INTEGER_MAX,
               .about = "Memory of one call: gradients between ops, recomputed activations, "
                        "scratch of kernels."),
    MEMBER_INT(struct plan_memory, borders_bytes, "borders_bytes", 0, 0, INTEGER_MAX,
               .about = "Samples, labels and tensors from and to other stages."),
    MEMBER_INT(struct plan_memory, snapshots_bytes, "snapshots_bytes", 0, 0, INTEGER_MAX,
               .about = "Snapshots of the stage's own state."),
    MEMBER_INT(struct plan_memory, replicas_bytes, "replicas_bytes", 0, 0, INTEGER_MAX,
               .about = "Replicas of the previous stage."),
};
const struct record plan_memory_record =
    RECORD_WITH(struct plan_memory, "plan_memory", memory_fields, .answer = true,
                .about = "The parts of memory_bytes. All are 0 in a plan of an earlier version.");

#define STAGE_SECONDS                                                                              \
    "Seconds for one micro-batch, without the time in which a quota or other programs have the "   \
    "processor."

static const struct field share_fields[] = {
    MEMBER_INT(struct plan_stage, share_first, "first", 0, 0, MICRO_BATCHES_MAX),
    MEMBER_INT(struct plan_stage, share_end, "end", 0, 0, MICRO_BATCHES_MAX,
               .about = "One past its last micro-batch."),
};
static const struct record share_group = RECORD(struct plan_stage, "plan_share", share_fields);

static const struct field stage_fields[] = {
    MEMBER_FORM(struct plan_stage, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_INT(struct plan_stage, first, "first", FIELD_REQUIRED, 0, UNITS_MAX,
               .about = "Units [first, end)."),
    MEMBER_INT(struct plan_stage, end, "end", FIELD_REQUIRED, 0, UNITS_MAX,
               .about = "One past its last unit."),
    MEMBER_INT(struct plan_stage, in_flight, "in_flight", 0, 0, MICRO_BATCHES_MAX,
               .about = "Maximum number of micro-batches in flight."),
    MEMBER_GROUP("share", FIELD_SKIP_EMPTY, &share_group,
                 .about = "`parameter_server`: the micro-batches of a step that the device "
                          "computes; absent: none."),
    MEMBER_ENUM(struct plan_stage, codec, "codec", FIELD_ADDED, codec_names,
                .about = "Codec of the activations to the next stage and of the gradients from it; "
                         "`none` for the last stage."),
    MEMBER_INT(struct plan_stage, memory_bytes, "memory_bytes", 0, 0, INTEGER_MAX,
               .about = "Total memory of the stage: arena, its own snapshots, replicas of others."),
    MEMBER_INT(
        struct plan_stage, replica_bytes, "replica_bytes", 0, 0, INTEGER_MAX,
        .about =
            "The part of `memory_bytes` for replicas of the previous stage in the ring, at most."),
    MEMBER_RECORD(struct plan_stage, memory, "memory", 0, &plan_memory_record),
    MEMBER_DOUBLE(struct plan_stage, predicted_forward_seconds, "predicted_forward_seconds", 0, 0,
                  0, .about = STAGE_SECONDS),
    MEMBER_DOUBLE(struct plan_stage, predicted_backward_seconds, "predicted_backward_seconds", 0, 0,
                  0, .about = STAGE_SECONDS),
    MEMBER_DOUBLE(struct plan_stage, predicted_busy, "predicted_busy", 0, 0, 0,
                  .about =
                      "Share of the step in which the stage computes, or has work and is stopped."),
    MEMBER_DOUBLE(struct plan_stage, predicted_pull_seconds, "predicted_pull_seconds",
                  FIELD_SKIP_EMPTY, 0, 0,
                  .about = "`parameter_server`: seconds from the worker's first request of a step "
                           "to the end of its first forward pass."),
    MEMBER_DOUBLE(struct plan_stage, predicted_push_seconds, "predicted_push_seconds",
                  FIELD_SKIP_EMPTY, 0, 0,
                  .about = "`parameter_server`: seconds from the beginning of the worker's last "
                           "backward pass to the answer to its last sum."),
    MEMBER_INT(struct plan_stage, pull_segments, "pull_segments", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "Requests for parameters in a step. Left out: the device keeps all units."),
    MEMBER_INT(
        struct plan_stage, push_segments, "push_segments", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
        .about =
            "Requests for the worker's first sum of a step. Left out: the device keeps all units."),
    MEMBER_DOUBLE(struct plan_stage, measured_forward_seconds, "measured_forward_seconds",
                  FIELD_NULLABLE, 0, 0, .about = STAGE_SECONDS),
    MEMBER_DOUBLE(struct plan_stage, measured_backward_seconds, "measured_backward_seconds",
                  FIELD_NULLABLE, 0, 0, .about = STAGE_SECONDS),
};
static const struct record stage_record =
    RECORD_WITH(struct plan_stage, "plan_stage", stage_fields, .answer = true);

static const struct field link_fields[] = {
    MEMBER_ENUM(struct plan_link, codec, "codec", FIELD_REQUIRED, codec_names),
    MEMBER_INT(struct plan_link, bytes, "bytes", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Bytes of the coded activations of one micro-batch. The gradients have as "
                        "many. zstd saves some more."),
    MEMBER_DOUBLE(struct plan_link, predicted_seconds, "predicted_seconds", FIELD_REQUIRED, 0, 0,
                  .about = "Predicted seconds to transfer these bytes."),
    MEMBER_DOUBLE(struct plan_link, measured_seconds, "measured_seconds", FIELD_NULLABLE, 0, 0,
                  .about = "Mean seconds of the newest transfers in both directions."),
};
const struct record plan_link_record =
    RECORD_WITH(struct plan_link, "plan_link", link_fields, .answer = true,
                .about = "The link between a stage and the next one.");

const char *const plan_part_names[] = {
    [PART_NONE] = "none", [PART_STAGE] = "stage", [PART_LINK] = "link", NULL};

static const struct field bottleneck_fields[] = {
    MEMBER_ENUM(struct plan_bottleneck, part, "part", FIELD_REQUIRED, plan_part_names,
                .about = "Whether a stage or a link is busiest. none: not known, in a plan of an "
                         "earlier version."),
    MEMBER_INT(struct plan_bottleneck, index, "index", FIELD_REQUIRED, 0, STAGES_MAX - 1,
               .about = "Index of the stage or of the link, from 0."),
    MEMBER_DOUBLE(struct plan_bottleneck, busy, "busy", FIELD_REQUIRED, 0, 0,
                  .about =
                      "Share of the step in which the stage computes, or has work and is stopped. "
                      "For a link: in which its busier direction codes and transfers."),
};
const struct record plan_bottleneck_record =
    RECORD_WITH(struct plan_bottleneck, "plan_bottleneck", bottleneck_fields, .answer = true,
                .about = "The stage or link that the prediction shows as busiest.");

const char *const plan_left_out_names[] = {"slower",      "no_gain",     "no_memory",
                                           "stages_full", "unavailable", NULL};

static const struct field left_out_fields[] = {
    MEMBER_FORM(struct plan_left_out, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_ENUM(
        struct plan_left_out, reason, "reason", FIELD_REQUIRED, plan_left_out_names,
        .about = "Why the plan leaves the device out. See [devices left out](#what-a-plan-shows)."),
    MEMBER_DOUBLE(
        struct plan_left_out, step_seconds_with, "step_seconds_with", FIELD_NULLABLE, 0, 0,
        .about = "Predicted step time of the fastest plan found with the device; null: none fits."),
};
static const struct record left_out_record =
    RECORD_WITH(struct plan_left_out, "plan_left_out", left_out_fields, .answer = true);

static const struct field unbound_fields[] = {
    MEMBER_INT(struct plan_unbound, devices, "devices", 0, 0, STAGES_MAX,
               .about = "The number of devices; 0: fewer devices are not faster."),
    MEMBER_DOUBLE(struct plan_unbound, step_seconds, "step_seconds", FIELD_NULLABLE, 0, 0,
                  .about = "The predicted step time with this number of devices."),
};
const struct record plan_unbound_record =
    RECORD_WITH(struct plan_unbound, "plan_without_minimum", unbound_fields, .answer = true,
                .about = "The step time with fewer devices than `devices.min`.");

static const struct field plan_fields[] = {
    MEMBER_FORM(struct plan, id.text, "id", FIELD_REQUIRED, &plan_id_form,
                .about = "Made by the coordinator."),
    MEMBER_FORM(struct plan, job.text, "job", FIELD_REQUIRED, &job_id_form),
    PART_OF_FIELDS(struct plan),
    MEMBER_INT(struct plan, revision, "revision", 0, 0, INTEGER_MAX,
               .about = "Rises with each change."),
    MEMBER_INT(struct plan, generation, "generation", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The plan's number; the fencing token of every message."),
    MEMBER_ENUM(struct plan, state, "state", FIELD_REQUIRED, plan_state_names,
                .about = "discarded: the plan never ran."),
    MEMBER_ENUM(struct plan, reason, "reason", FIELD_REQUIRED, plan_reason_names,
                .about = "Why the plan was made. See [reasons](#what-a-plan-shows)."),
    MEMBER_INT(struct plan, resume_version, "resume_version", 0, 0, INTEGER_MAX,
               .about = "The version that the plan started from."),
    MEMBER_INT(struct plan, last_version, "last_version", FIELD_NULLABLE, 0, INTEGER_MAX,
               .about = "The version that the plan left to the next plan; null: not yet."),
    MEMBER_BOOL(struct plan, unevaluated, "unevaluated", FIELD_SKIP_EMPTY | FIELD_ADDED,
                .about = "The plan stopped at the job's last step, before the evaluation of the "
                         "model. The next plan evaluates it."),
    MEMBER_TEXT(struct plan, failure, "failure", FIELD_NULLABLE,
                .about = "Why the plan's generation failed; null: it did not fail."),
    MEMBER_ENUM(struct plan, verdict, "verdict", FIELD_ADDED, plan_verdict_names,
                .about = "kept: its steps confirmed it, or it trained to the end; rolled_back: it "
                         "was slower than the plan before it; superseded: another plan followed; "
                         "none: not known yet."),
    MEMBER_RECORDS(struct plan, stage, stage_count, "stages", 0, &stage_record,
                   .about = "The stages in the order of the pipeline."),
    MEMBER_RECORDS(struct plan, link, link_count, "links", FIELD_ADDED, &plan_link_record,
                   .about = "The link after each stage, except the last stage."),
    MEMBER_RECORD(struct plan, bottleneck, "bottleneck", FIELD_ADDED, &plan_bottleneck_record),
    MEMBER_BOOL(struct plan, strict, "strict_order", FIELD_ADDED,
                .about = "True: each stage alternates forward and backward passes. False: it "
                         "prefers backward passes. Stages of `async` jobs always alternate."),
    MEMBER_DOUBLE(struct plan, predicted_step_seconds, "predicted_step_seconds", 0, 0, 0,
                  .about = "Predicted seconds of one step."),
    MEMBER_DOUBLE(struct plan, predicted_efficiency, "predicted_efficiency", 0, 0, 0,
                  .about = "The step time if the plan's devices were always busy, divided by the "
                           "predicted one."),
    MEMBER_BOOL(struct plan, optimal, "optimal", 0,
                .about = "Proven: no plan in the greedy order is faster by more than 1 %."),
    MEMBER_DOUBLE(struct plan, gap, "gap", 0, 0, 0,
                  .about = "The predicted step time divided by a proven lower bound, minus 1."),
    MEMBER_RECORDS(struct plan, left_out, left_out_count, "left_out", 0, &left_out_record,
                   .about = "Candidates that the plan does not use."),
    MEMBER_RECORD(struct plan, unbound, "without_minimum", 0, &plan_unbound_record),
    MEMBER_DOUBLE(struct plan, measured_step_seconds, "measured_step_seconds", FIELD_NULLABLE, 0, 0,
                  .about = "Median seconds of the newest steps."),
    MEMBER_DOUBLE(struct plan, measured_over_predicted, "measured_over_predicted",
                  FIELD_ADDED | FIELD_NULLABLE, 0, 0,
                  .about = "The measured step time divided by the predicted one."),
    MEMBER_INT(struct plan, measured_steps, "measured_steps", 0, 0, INTEGER_MAX,
               .about = "The number of steps in `measured_step_seconds`."),
    MEMBER_INT(struct plan, bytes_moved, "bytes_moved", 0, 0, INTEGER_MAX,
               .about = "Bytes of state that changed devices."),
    MEMBER_DOUBLE(struct plan, prepare_seconds, "prepare_seconds", FIELD_NULLABLE, 0, 0,
                  .about = "Seconds from the decision until all devices run."),
    MEMBER_TIME(struct plan, created_ms, "created_at", FIELD_NULLABLE, .about = "The decision."),
    MEMBER_TIME(struct plan, started_ms, "started_at", FIELD_NULLABLE, .about = "The first run."),
    MEMBER_TIME(struct plan, ended_ms, "ended_at", FIELD_NULLABLE, .about = "The end."),
};
const struct record plan_record =
    RECORD_WITH(struct plan, "plan", plan_fields, .answer = true,
                .about = "Stages on devices, predicted and measured.");
