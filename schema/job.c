#include "schema/job.h"

#include "libtrain/model/recipe.h"

const char *const job_state_names[] = {
    [JOB_QUEUED] = "queued",
    [JOB_PLANNING] = "planning",
    [JOB_PREPARING] = "preparing",
    [JOB_RUNNING] = "running",
    [JOB_REPLANNING] = "replanning",
    [JOB_RECOVERING] = "recovering",
    [JOB_PAUSING] = "pausing",
    [JOB_PAUSED] = "paused",
    [JOB_WAITING_FOR_DEVICES] = "waiting_for_devices",
    [JOB_CANCELLING] = "cancelling",
    [JOB_SUCCEEDED] = "succeeded",
    [JOB_FAILED] = "failed",
    [JOB_CANCELLED] = "cancelled",
    NULL,
};

bool job_state_ended(int state)
{
    return state == JOB_SUCCEEDED || state == JOB_FAILED || state == JOB_CANCELLED;
}

/* ---- the spec ---- */

static const struct field model_fields[] = {
    MEMBER_FORM(struct job_model, name, "name", FIELD_NULLABLE, &name_form),
    MEMBER_FORM(struct job_model, sha256, "sha256", FIELD_NULLABLE | FIELD_SKIP_EMPTY,
                &sha256_form),
    MEMBER_JSON(struct job_model, description, "description", FIELD_NULLABLE | FIELD_SKIP_EMPTY),
};
static const struct record model_record = RECORD(struct job_model, "job_model", model_fields);

static const struct field dataset_fields[] = {
    MEMBER_FORM(struct job_spec, dataset_train, "train", FIELD_REQUIRED, &name_form),
    MEMBER_FORM(struct job_spec, dataset_test, "test", FIELD_NULLABLE, &name_form),
};
static const struct record dataset_group = RECORD(struct job_spec, "job_dataset", dataset_fields);

static const struct field unit_name_element = {.type = FIELD_TEXT, .size = NAME_SIZE};

static const struct field init_fields[] = {
    MEMBER_INT(struct job_spec, seed, "seed", 0, 0, INTEGER_MAX),
    MEMBER_FORM(struct job_spec, init_checkpoint.text, "checkpoint", FIELD_NULLABLE,
                &checkpoint_id_form),
    MEMBER_LIST(struct job_spec, init_except, "except", 0, &unit_name_element, init_except_count),
};
static const struct record init_group = RECORD(struct job_spec, "job_init", init_fields);

static const struct field optimizer_fields[] = {
    MEMBER_ENUM(struct optimizer, type, "type", 0, optimizer_type_names),
    MEMBER_DOUBLE(struct optimizer, momentum, "momentum", 0, 0, 1),
    MEMBER_BOOL(struct optimizer, nesterov, "nesterov", 0),
    MEMBER_DOUBLE(struct optimizer, beta1, "beta1", 0, 0, 1),
    MEMBER_DOUBLE(struct optimizer, beta2, "beta2", 0, 0, 1),
    MEMBER_DOUBLE(struct optimizer, epsilon, "epsilon", 0, 0, 1),
    MEMBER_DOUBLE(struct optimizer, weight_decay, "weight_decay", 0, 0, 1000),
    MEMBER_DOUBLE(struct optimizer, clip_value, "clip_value", FIELD_NULLABLE, 1e-6, 1e6),
    MEMBER_DOUBLE(struct optimizer, clip_norm, "clip_norm", FIELD_NULLABLE, 1e-6, 1e6),
};
static const struct record optimizer_record =
    RECORD(struct optimizer, "optimizer", optimizer_fields);

static const struct field learning_rate_fields[] = {
    MEMBER_ENUM(struct learning_rate, type, "type", 0, learning_rate_type_names),
    MEMBER_DOUBLE(struct learning_rate, value, "value", FIELD_NULLABLE, 1e-30, 1000),
    MEMBER_INT(struct learning_rate, warmup_steps, "warmup_steps", 0, 0, STEPS_MAX),
    MEMBER_INT(struct learning_rate, step_size, "step_size", FIELD_NULLABLE, 1, STEPS_MAX),
    MEMBER_DOUBLE(struct learning_rate, gamma, "gamma", 0, 0, 1000),
    MEMBER_DOUBLE(struct learning_rate, final_value, "final_value", 0, 0, 1000),
};
static const struct record learning_rate_record =
    RECORD(struct learning_rate, "learning_rate", learning_rate_fields);

static const struct field mean_element = {
    .type = FIELD_DOUBLE, .min = -NORMALISE_MEAN_MAX, .max = NORMALISE_MEAN_MAX};
static const struct field std_element = {
    .type = FIELD_DOUBLE, .min = NORMALISE_STD_MIN, .max = NORMALISE_STD_MAX};
/* An element shows what its type has. */
static const struct field augment_fields[] = {
    MEMBER_ENUM(struct augment, type, "type", FIELD_REQUIRED, augment_type_names),
    MEMBER_INT(struct augment, padding, "padding", FIELD_SKIP_EMPTY, 1, AUGMENT_PADDING_MAX),
    MEMBER_LIST(struct augment, normalise.mean, "mean", FIELD_SKIP_EMPTY, &mean_element,
                normalise.mean_count),
    MEMBER_LIST(struct augment, normalise.std, "std", FIELD_SKIP_EMPTY, &std_element,
                normalise.std_count),
};
static const struct record augment_record = RECORD(struct augment, "augment", augment_fields);

static const struct field devices_fields[] = {
    MEMBER_MAP(struct job_spec, device_label, "labels", 0, &label_record, device_label_count),
    MEMBER_INT(struct job_spec, devices_min, "min", 0, 1, STAGES_MAX),
    MEMBER_INT(struct job_spec, devices_max, "max", 0, 1, STAGES_MAX),
    MEMBER_TEXT(struct job_spec, numeric_class, "numeric_class", FIELD_NULLABLE),
};
static const struct record devices_group = RECORD(struct job_spec, "job_devices", devices_fields);

static const struct field replication_fields[] = {
    MEMBER_INT(struct job_spec, neighbor_every, "neighbor_every", 0, 0, STEPS_MAX),
    MEMBER_INT(struct job_spec, center_every, "center_every", 0, 0, STEPS_MAX),
};
static const struct record replication_group =
    RECORD(struct job_spec, "job_replication", replication_fields);

static const struct field replan_fields[] = {
    MEMBER_INT(struct job_spec, replan_first, "first", 0, 0, STEPS_MAX),
    MEMBER_INT(struct job_spec, replan_every, "every", 0, 0, STEPS_MAX),
};
static const struct record replan_group = RECORD(struct job_spec, "job_replan", replan_fields);

static const struct field evaluate_fields[] = {
    MEMBER_INT(struct job_spec, evaluate_every_epochs, "every_epochs", 0, 0, EPOCHS_MAX),
};
static const struct record evaluate_group =
    RECORD(struct job_spec, "job_evaluate", evaluate_fields);

static const struct field cut_element = {.type = FIELD_INT, .min = 1, .max = UNITS_MAX - 1};

static const struct field spec_fields[] = {
    MEMBER_FORM(struct job_spec, name, "name", 0, &name_form),
    MEMBER_RECORD(struct job_spec, model, "model", FIELD_REQUIRED, &model_record),
    MEMBER_GROUP("dataset", FIELD_REQUIRED, &dataset_group),
    MEMBER_GROUP("init", 0, &init_group),
    MEMBER_INT(struct job_spec, batch, "batch", 0, 1, BATCH_MAX),
    MEMBER_INT(struct job_spec, micro_batches, "micro_batches", 0, 1, MICRO_BATCHES_MAX),
    MEMBER_INT(struct job_spec, epochs, "epochs", 0, 1, EPOCHS_MAX),
    MEMBER_INT(struct job_spec, steps, "steps", FIELD_NULLABLE, 1, STEPS_MAX),
    MEMBER_RECORD(struct job_spec, optimizer, "optimizer", 0, &optimizer_record),
    MEMBER_RECORD(struct job_spec, learning_rate, "learning_rate", 0, &learning_rate_record),
    MEMBER_RECORDS(struct job_spec, augment, "augment", 0, &augment_record, augment_count),
    MEMBER_LIST(struct job_spec, freeze, "freeze", 0, &unit_name_element, freeze_count),
    MEMBER_JSON(struct job_spec, kernels, "kernels", FIELD_NULLABLE),
    MEMBER_CONSTANT("strategy", "\"pipeline\""),
    MEMBER_CONSTANT("pipeline", "\"sync\""),
    MEMBER_CONSTANT("aggregate_every", "0"),
    MEMBER_GROUP("devices", 0, &devices_group),
    MEMBER_GROUP("replication", 0, &replication_group),
    MEMBER_GROUP("replan", 0, &replan_group),
    MEMBER_CONSTANT("compression", "\"none\""),
    MEMBER_ENUM(struct job_spec, recompute, "recompute", 0, recompute_names),
    MEMBER_DOUBLE(struct job_spec, expected_step_seconds, "expected_step_seconds", FIELD_NULLABLE,
                  1e-6, 86400),
    MEMBER_INT(struct job_spec, autonomy_seconds, "autonomy_seconds", 0, 0, 31536000),
    MEMBER_GROUP("evaluate", 0, &evaluate_group),
    MEMBER_INT(struct job_spec, priority, "priority", 0, -1000, 1000),
    MEMBER_LIST(struct job_spec, cut, "cuts", FIELD_NULLABLE, &cut_element, cut_count),
};
const struct record job_spec_record = RECORD(struct job_spec, "job_spec", spec_fields);

const struct job_spec job_spec_default = {
    .name = "job",
    .seed = 1,
    .batch = 32,
    .micro_batches = 4,
    .epochs = 1,
    .optimizer =
        {.type = OPTIMIZER_SGD, .momentum = 0.9, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
    .learning_rate = {.type = LEARNING_RATE_CONSTANT, .gamma = 0.1}, /* value: job_spec_complete */
    .devices_min = 1,
    .devices_max = 8,
    .neighbor_every = 50,
    .center_every = 100,
    .replan_first = 10,
    .replan_every = 100,
    .autonomy_seconds = 3600,
    .evaluate_every_epochs = 1,
};

void job_spec_complete(struct job_spec *spec)
{
    if (spec->learning_rate.value <= 0) {
        spec->learning_rate.value = learning_rate_default(spec->model.name, spec->optimizer.type);
    }
}

/* ---- where it stands ---- */

static const struct field data_fields[] = {
    MEMBER_FORM(struct job_data, train_sha256, "train_sha256", FIELD_NULLABLE, &sha256_form),
    MEMBER_FORM(struct job_data, test_sha256, "test_sha256", FIELD_NULLABLE, &sha256_form),
    MEMBER_INT(struct job_data, train_samples, "train_samples", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_data, test_samples, "test_samples", 0, 0, INTEGER_MAX),
    MEMBER_FORM(struct job_data, checkpoint_sha256, "checkpoint_sha256", FIELD_NULLABLE,
                &sha256_form),
    MEMBER_INT(struct job_data, checkpoint_bytes, "checkpoint_size_bytes", 0, 0, INTEGER_MAX),
    MEMBER_BOOL(struct job_data, tune, "tune", 0),
};
const struct record job_data_record = RECORD(struct job_data, "job_data", data_fields);

static const struct field progress_fields[] = {
    MEMBER_DOUBLE(struct job_progress, fraction, "fraction", 0, 0, 0),
    MEMBER_INT(struct job_progress, step, "step", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_progress, steps, "steps", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_progress, epoch, "epoch", 0, 0, INTEGER_MAX),
    MEMBER_DOUBLE_OPTIONAL(struct job_progress, loss, "loss", 0, 0, 0, has_loss),
    MEMBER_DOUBLE_OPTIONAL(struct job_progress, accuracy, "accuracy", 0, 0, 0, has_accuracy),
    MEMBER_DOUBLE(struct job_progress, samples_per_second, "samples_per_second", FIELD_NULLABLE, 0,
                  0),
    MEMBER_DOUBLE(struct job_progress, eta_seconds, "eta_seconds", FIELD_NULLABLE, 0, 0),
};
static const struct record progress_record =
    RECORD(struct job_progress, "job_progress", progress_fields);

static const struct field deadlines_fields[] = {
    MEMBER_INT(struct job_deadlines, heartbeat_ms, "heartbeat_ms", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_deadlines, suspect_ms, "suspect_ms", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_deadlines, lease_ms, "lease_ms", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_deadlines, challenge_ms, "challenge_ms", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_deadlines, peer_ms, "peer_ms", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_deadlines, link_ms, "link_ms", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_deadlines, step_ms, "step_ms", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_deadlines, evaluation_ms, "evaluation_ms", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_deadlines, prepare_ms, "prepare_ms", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_deadlines, stop_ms, "stop_ms", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job_deadlines, round_ms, "round_ms", 0, 0, INTEGER_MAX),
};
static const struct record deadlines_record =
    RECORD(struct job_deadlines, "job_deadlines", deadlines_fields);

static const struct field line_fields[] = {
    MEMBER_INT(struct line_start, generation, "generation", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct line_start, first, "first", FIELD_REQUIRED, 0, INTEGER_MAX),
};
static const struct record line_record = RECORD(struct line_start, "line_start", line_fields);

static const struct field replan_request_fields[] = {
    MEMBER_LIST_OPTIONAL(struct replan_request, cut, "cuts", 0, &cut_element, cut_count, has_cuts),
    MEMBER_LIST(struct replan_request, device, "devices", FIELD_NULLABLE, &device_id_element,
                device_count),
};
const struct record replan_request_record =
    RECORD(struct replan_request, "replan_request", replan_request_fields);

static const struct field job_fields[] = {
    MEMBER_FORM(struct job, id.text, "id", FIELD_REQUIRED, &job_id_form),
    MEMBER_INT(struct job, revision, "revision", 0, 0, INTEGER_MAX),
    MEMBER_ENUM(struct job, state, "state", FIELD_REQUIRED, job_state_names),
    MEMBER_TEXT(struct job, state_reason, "state_reason", FIELD_NULLABLE),
    MEMBER_TEXT(struct job, message, "message", FIELD_NULLABLE),
    MEMBER_RECORD(struct job, spec, "spec", FIELD_REQUIRED, &job_spec_record),
    MEMBER_RECORD(struct job, data, "data", 0, &job_data_record),
    MEMBER_RECORD(struct job, progress, "progress", 0, &progress_record),
    MEMBER_INT(struct job, generation, "generation", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job, version, "version", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct job, neighbor_version, "neighbor_version", 0, 0, INTEGER_MAX),
    MEMBER_BOOL(struct job, stalled, "stalled", 0),
    MEMBER_RECORD(struct job, deadlines, "deadlines", 0, &deadlines_record),
    MEMBER_RECORDS(struct job, line, "line", 0, &line_record, line_count),
    MEMBER_OPTIONAL(struct job, wish, "replan_request", 0, &replan_request_record, has_wish),
    MEMBER_BOOL(struct job, exact, "exact", 0),
    MEMBER_TEXT(struct job, numeric_class, "numeric_class", FIELD_NULLABLE),
    MEMBER_FORM(struct job, checkpoint.text, "checkpoint", FIELD_NULLABLE, &checkpoint_id_form),
    MEMBER_INT(struct job, export_version, "export_version", FIELD_NULLABLE, 0, INTEGER_MAX),
    MEMBER_INT(struct job, exported_version, "exported_version", FIELD_NULLABLE, 0, INTEGER_MAX),
    MEMBER_TIME(struct job, created_ms, "created_at", FIELD_NULLABLE),
    MEMBER_TIME(struct job, started_ms, "started_at", FIELD_NULLABLE),
    MEMBER_TIME(struct job, ended_ms, "ended_at", FIELD_NULLABLE),
};
const struct record job_record = RECORD(struct job, "job", job_fields);

/* ---- requests and answers about a job ---- */

static const struct field preview_stage_fields[] = {
    MEMBER_FORM(struct preview_stage, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_INT(struct preview_stage, first, "first", FIELD_REQUIRED, 0, UNITS_MAX),
    MEMBER_INT(struct preview_stage, end, "end", FIELD_REQUIRED, 0, UNITS_MAX),
    MEMBER_LIST(struct preview_stage, unit, "units", FIELD_REQUIRED, &unit_name_element,
                unit_count),
    MEMBER_INT(struct preview_stage, in_flight, "in_flight", FIELD_REQUIRED, 0, MICRO_BATCHES_MAX),
    MEMBER_INT(struct preview_stage, memory_bytes, "memory_bytes", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_RECORD(struct preview_stage, memory, "memory", FIELD_REQUIRED, &plan_memory_record),
    MEMBER_DOUBLE(struct preview_stage, predicted_forward_seconds, "predicted_forward_seconds",
                  FIELD_REQUIRED, 0, 0),
    MEMBER_DOUBLE(struct preview_stage, predicted_backward_seconds, "predicted_backward_seconds",
                  FIELD_REQUIRED, 0, 0),
    MEMBER_DOUBLE(struct preview_stage, predicted_busy, "predicted_busy", FIELD_REQUIRED, 0, 0),
};
static const struct record preview_stage_record =
    RECORD(struct preview_stage, "preview_stage", preview_stage_fields);

static const char *const preview_start_names[] = {[PREVIEW_NOW] = "now",
                                                  [PREVIEW_WHEN_FREE] = "when_free",
                                                  [PREVIEW_WHEN_MORE] = "when_more_devices",
                                                  NULL};

static const struct field preview_fields[] = {
    MEMBER_ENUM(struct job_preview, starts, "starts", FIELD_REQUIRED, preview_start_names),
    MEMBER_RECORDS(struct job_preview, stage, "stages", FIELD_REQUIRED, &preview_stage_record,
                   stage_count),
    MEMBER_DOUBLE(struct job_preview, predicted_step_seconds, "predicted_step_seconds",
                  FIELD_NULLABLE, 0, 0),
    MEMBER_DOUBLE(struct job_preview, predicted_efficiency, "predicted_efficiency", FIELD_NULLABLE,
                  0, 0),
    MEMBER_DOUBLE(struct job_preview, predicted_total_seconds, "predicted_total_seconds",
                  FIELD_NULLABLE, 0, 0),
    MEMBER_INT(struct job_preview, steps, "steps", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_TEXT(struct job_preview, waiting_for, "waiting_for", FIELD_NULLABLE),
};
const struct record job_preview_record = RECORD(struct job_preview, "job_preview", preview_fields);
