#include "schema/job_preview.h"

#include "libtrain/quant/codec.h"

static const struct field unit_name_element = {.type = FIELD_TEXT, .size = NAME_SIZE};

static const struct field share_fields[] = {
    MEMBER_INT(struct preview_stage, share_first, "first", 0, 0, MICRO_BATCHES_MAX),
    MEMBER_INT(struct preview_stage, share_end, "end", 0, 0, MICRO_BATCHES_MAX,
               .about = "One past its last micro-batch."),
};
static const struct record share_group = RECORD(struct preview_stage, "plan_share", share_fields);

static const struct field preview_stage_fields[] = {
    MEMBER_FORM(struct preview_stage, device.text, "device", FIELD_REQUIRED | FIELD_NULLABLE,
                &device_id_form, .about = "The stage's device; null: a hypothetical device."),
    MEMBER_TEXT(struct preview_stage, name, "name", FIELD_REQUIRED, .about = "The device's name."),
    MEMBER_INT(struct preview_stage, first, "first", FIELD_REQUIRED, 0, UNITS_MAX,
               .about = "Units [first, end)."),
    MEMBER_INT(struct preview_stage, end, "end", FIELD_REQUIRED, 0, UNITS_MAX,
               .about = "One past its last unit."),
    MEMBER_LIST(struct preview_stage, unit, unit_count, "units", FIELD_REQUIRED, &unit_name_element,
                .about = "The names of these units."),
    MEMBER_INT(struct preview_stage, in_flight, "in_flight", FIELD_REQUIRED, 0, MICRO_BATCHES_MAX,
               .about = "Maximum number of micro-batches in flight."),
    MEMBER_GROUP("share", FIELD_SKIP_EMPTY, &share_group,
                 .about = "`parameter_server`: the micro-batches of a step that the device "
                          "computes; absent: none."),
    MEMBER_ENUM(struct preview_stage, codec, "codec", FIELD_REQUIRED, codec_names,
                .about = "Codec of the link to the next stage; `none` for the last stage."),
    MEMBER_INT(struct preview_stage, memory_bytes, "memory_bytes", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Total memory of the stage."),
    MEMBER_RECORD(struct preview_stage, memory, "memory", FIELD_REQUIRED, &plan_memory_record),
    MEMBER_DOUBLE(struct preview_stage, predicted_forward_seconds, "predicted_forward_seconds",
                  FIELD_REQUIRED, 0, 0, .about = "Predicted seconds for one micro-batch."),
    MEMBER_DOUBLE(struct preview_stage, predicted_backward_seconds, "predicted_backward_seconds",
                  FIELD_REQUIRED, 0, 0, .about = "Predicted seconds for one micro-batch."),
    MEMBER_DOUBLE(struct preview_stage, predicted_busy, "predicted_busy", FIELD_REQUIRED, 0, 0,
                  .about = "Share of the step in which the stage computes."),
    MEMBER_DOUBLE(struct preview_stage, predicted_pull_seconds, "predicted_pull_seconds",
                  FIELD_SKIP_EMPTY, 0, 0,
                  .about = "`parameter_server`: seconds from the worker's first request of a step "
                           "to the end of its first forward pass."),
    MEMBER_DOUBLE(struct preview_stage, predicted_push_seconds, "predicted_push_seconds",
                  FIELD_SKIP_EMPTY, 0, 0,
                  .about = "`parameter_server`: seconds from the beginning of the worker's last "
                           "backward pass to the answer to its last sum."),
    MEMBER_INT(struct preview_stage, pull_segments, "pull_segments", FIELD_SKIP_EMPTY, 0,
               INTEGER_MAX, .about = "Requests for parameters in a step."),
    MEMBER_INT(struct preview_stage, push_segments, "push_segments", FIELD_SKIP_EMPTY, 0,
               INTEGER_MAX, .about = "Requests for the worker's first sum of a step."),
};
static const struct record preview_stage_record =
    RECORD(struct preview_stage, "preview_stage", preview_stage_fields);

static const struct field left_out_fields[] = {
    MEMBER_FORM(struct preview_left_out, device.text, "device", FIELD_REQUIRED | FIELD_NULLABLE,
                &device_id_form,
                .about = "The device that the plan leaves out; null: a hypothetical device."),
    MEMBER_TEXT(struct preview_left_out, name, "name", FIELD_REQUIRED,
                .about = "The device's name."),
    MEMBER_ENUM(struct preview_left_out, reason, "reason", FIELD_REQUIRED, plan_left_out_names,
                .about = "Why the plan leaves the device out. See [devices left "
                         "out](jobs.md#what-a-plan-shows)."),
    MEMBER_DOUBLE(
        struct preview_left_out, step_seconds_with, "step_seconds_with",
        FIELD_REQUIRED | FIELD_NULLABLE, 0, 0,
        .about = "Predicted step time of the fastest plan found with the device; null: none fits."),
};
static const struct record left_out_record =
    RECORD(struct preview_left_out, "preview_left_out", left_out_fields);

static const char *const preview_start_names[] = {[PREVIEW_NOW] = "now",
                                                  [PREVIEW_WHEN_FREE] = "when_free",
                                                  [PREVIEW_WHEN_MORE] = "when_more_devices",
                                                  NULL};

static const struct field preview_fields[] = {
    MEMBER_ENUM(
        struct job_preview, starts, "starts", FIELD_REQUIRED, preview_start_names,
        .about = "now: the job starts at once; when_free: it starts once busy devices of the plan "
                 "are free; when_more_devices: there is no plan without more or larger devices."),
    MEMBER_RECORDS(
        struct job_preview, stage, stage_count, "stages", FIELD_REQUIRED, &preview_stage_record,
        .about = "The plan with all online devices. Empty: waiting_for names the shortage."),
    MEMBER_RECORDS(struct job_preview, link, link_count, "links", FIELD_REQUIRED, &plan_link_record,
                   .about = "The link after each stage, except the last stage."),
    MEMBER_RECORD(struct job_preview, bottleneck, "bottleneck", FIELD_REQUIRED,
                  &plan_bottleneck_record),
    MEMBER_BOOL(struct job_preview, optimal, "optimal", FIELD_REQUIRED,
                .about = "Proven: no plan in the greedy order is faster by more than 1 %."),
    MEMBER_DOUBLE(struct job_preview, gap, "gap", FIELD_REQUIRED, 0, 0,
                  .about = "The predicted step time divided by a proven lower bound, minus 1."),
    MEMBER_RECORDS(struct job_preview, left_out, left_out_count, "left_out", FIELD_REQUIRED,
                   &left_out_record, .about = "Candidates that the plan does not use."),
    MEMBER_RECORD(struct job_preview, unbound, "without_minimum", FIELD_REQUIRED,
                  &plan_unbound_record),
    MEMBER_DOUBLE(struct job_preview, predicted_step_seconds, "predicted_step_seconds",
                  FIELD_NULLABLE, 0, 0, .about = "Predicted seconds of one step."),
    MEMBER_DOUBLE(struct job_preview, predicted_efficiency, "predicted_efficiency", FIELD_NULLABLE,
                  0, 0,
                  .about = "The step time if the plan's devices were always busy, divided by the "
                           "predicted one."),
    MEMBER_DOUBLE(struct job_preview, predicted_total_seconds, "predicted_total_seconds",
                  FIELD_NULLABLE, 0, 0,
                  .about = "Predicted seconds of all steps, including completed ones."),
    MEMBER_INT(struct job_preview, steps, "steps", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Steps of the whole job."),
    MEMBER_TEXT(struct job_preview, waiting_for, "waiting_for", FIELD_NULLABLE,
                .about = "The devices that the job would wait for now; null: none."),
    MEMBER_OPTIONAL(struct job_preview, submodel, has_submodel, "submodel", 0,
                    &submodel_preview_record,
                    .about = "The prediction for a job of sub-models. The other members then show "
                             "the target as a pipeline. null: another kind of job."),
    MEMBER_OPTIONAL(struct job_preview, gossip, has_gossip, "gossip", 0, &gossip_preview_record,
                    .about = "The prediction for a job of strategy `gossip`. The other members "
                             "then show its model as a pipeline. null: another kind of job."),
    MEMBER_OPTIONAL(struct job_preview, servers, has_servers, "parameter_server", 0,
                    &servers_preview_record,
                    .about = "The step of a job of strategy `parameter_server`, compared with "
                             "other ways to train. null: another kind of job."),
};
const struct record job_preview_record =
    RECORD_WITH(struct job_preview, "job_preview", preview_fields, .answer = true,
                .about = "The answer of a dry run.");
