#include "schema/job.h"

#include "libtrain/model/recipe.h"
#include "schema/job_check.h"
#include "schema/job_view.h"

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

const char *const job_pipeline_names[] = {[JOB_SYNC] = "sync", [JOB_ASYNC] = "async", NULL};

bool job_state_ended(int state)
{
    return state == JOB_SUCCEEDED || state == JOB_FAILED || state == JOB_CANCELLED;
}

/* ---- the spec ---- */

const char *const compression_names[] = {
    [CODEC_NONE] = "none",
    [CODEC_BFLOAT16] = "bfloat16",
    [CODEC_Q8] = "q8",
    [CODEC_Q6] = "q6",
    [CODEC_Q4] = "q4",
    [CODEC_Q3] = "q3",
    [CODEC_Q2] = "q2",
    [CODEC_BFLOAT16_ZSTD] = "bfloat16+zstd",
    [CODEC_Q8_ZSTD] = "q8+zstd",
    [CODEC_Q6_ZSTD] = "q6+zstd",
    [CODEC_Q4_ZSTD] = "q4+zstd",
    [CODEC_Q3_ZSTD] = "q3+zstd",
    [CODEC_Q2_ZSTD] = "q2+zstd",
    [COMPRESSION_AUTO] = "auto",
    NULL,
};

static const struct field model_fields[] = {
    MEMBER_FORM(struct job_model, name, "name", FIELD_NULLABLE, &name_form,
                .about = "A model of the zoo or of `/v1/models`.",
                .rule = "as `name`; either a name or a description"),
    MEMBER_FORM(struct job_model, sha256, "sha256", FIELD_NULLABLE | FIELD_SKIP_EMPTY, &sha256_form,
                .about = "The hash of the description that the job uses.",
                .rule = "if given, that of this model"),
    MEMBER_JSON(struct job_model, description, "description", FIELD_NULLABLE | FIELD_SKIP_EMPTY,
                .about = "A model description in place of a name.", .rule = "1 MiB, 256 units"),
};
static const struct record model_record =
    RECORD_WITH(struct job_model, "job_model", model_fields,
                .about = "A name of the zoo or of /v1/models, or a description.");

static const struct field unit_name_element = {.type = FIELD_TEXT, .size = NAME_SIZE};

static const struct field init_fields[] = {
    MEMBER_INT(struct job_spec, seed, "seed", 0, 0, INTEGER_MAX,
               .about =
                   "Seed of the initial weights, the order of samples, augmentation and dropout."),
    MEMBER_FORM(
        struct job_spec, init_checkpoint.text, "checkpoint", FIELD_NULLABLE, &checkpoint_id_form,
        .about = "A checkpoint of `/v1/checkpoints` that gives the initial weights, by name and "
                 "shape; null: the seed gives them. See [fine-tuning](fine-tuning.md).",
        .rule = "must fit the model, except units in `except`"),
    MEMBER_LIST(struct job_spec, init_except, init_except_count, "except", 0, &unit_name_element,
                .about = "Units that start from the seed although there is a checkpoint.",
                .rule = "names of units; needs a checkpoint"),
};
static const struct record init_group = RECORD_WITH(struct job_spec, "job_init", init_fields,
                                                    .about = "The source of the initial weights.");

static const struct field optimizer_fields[] = {
    MEMBER_ENUM(struct optimizer, type, "type", 0, optimizer_type_names,
                .about = "Stochastic gradient descent, Adam, or Adam with decoupled weight decay."),
    MEMBER_DOUBLE(struct optimizer, momentum, "momentum", 0, 0, 1,
                  .about = "`sgd`: factor of the previous update.",
                  .rule = "below 1; the default without `sgd`"),
    MEMBER_BOOL(struct optimizer, nesterov, "nesterov", 0, .about = "`sgd`: Nesterov's momentum.",
                .rule = "needs `momentum` above 0; false without `sgd`"),
    MEMBER_DOUBLE(struct optimizer, beta1, "beta1", 0, 0, 1,
                  .about = "`adam`, `adamw`: decay of the gradient's average.",
                  .rule = "below 1; the default with `sgd`"),
    MEMBER_DOUBLE(struct optimizer, beta2, "beta2", 0, 0, 1,
                  .about = "`adam`, `adamw`: decay of the squared gradient's average.",
                  .rule = "below 1; the default with `sgd`"),
    MEMBER_DOUBLE(struct optimizer, epsilon, "epsilon", 0, 0, 1,
                  .about = "`adam`, `adamw`: added to the root of that average.",
                  .rule = "at least 1e-16; the default with `sgd`"),
    MEMBER_DOUBLE(struct optimizer, weight_decay, "weight_decay", 0, 0, 1000,
                  .about = "`sgd`, `adam`: L2, added to the gradient; `adamw`: times the learning "
                           "rate, subtracted from the parameter."),
    MEMBER_DOUBLE(struct optimizer, clip_value, "clip_value", FIELD_NULLABLE, 1e-6, 1e6,
                  .about = "Limit of each gradient element's absolute value; null: no limit."),
    MEMBER_DOUBLE(
        struct optimizer, clip_norm, "clip_norm", FIELD_NULLABLE, 1e-6, 1e6,
        .about =
            "Limit of the Euclidean norm of all gradients of the model together; null: no limit.",
        .rule = "not with `clip_value`"),
};
static const struct record optimizer_record =
    RECORD(struct optimizer, "optimizer", optimizer_fields);

static const struct field learning_rate_fields[] = {
    MEMBER_ENUM(struct learning_rate, type, "type", 0, learning_rate_type_names,
                .about = "The schedule of the rate."),
    MEMBER_DOUBLE(struct learning_rate, value, "value", FIELD_NULLABLE, 1e-30, 1000,
                  .about = "The rate after the warm-up; null: 0.01 with `sgd` (a model of the zoo "
                           "may have its own: `sgd_learning_rate` of `GET /v1/models/NAME`), 0.001 "
                           "with `adam` and `adamw`. The answer states the number."),
    MEMBER_INT(struct learning_rate, warmup_steps, "warmup_steps", 0, 0, STEPS_MAX,
               .about = "The rate rises linearly over these steps.",
               .rule = "below the number of steps of the job"),
    MEMBER_INT(struct learning_rate, step_size, "step_size", FIELD_NULLABLE, 1, STEPS_MAX,
               .about = "`step`: steps between two drops.",
               .rule = "required with `step`, else null"),
    MEMBER_DOUBLE(struct learning_rate, gamma, "gamma", 0, 0, 1000,
                  .about = "`step`: the factor of a drop.",
                  .rule = "above 0; the default without `step`"),
    MEMBER_DOUBLE(struct learning_rate, final_value, "final_value", 0, 0, 1000,
                  .about = "`cosine`: the rate of the last step.",
                  .rule = "at most `value`; 0 without `cosine`"),
};
static const struct record learning_rate_record =
    RECORD(struct learning_rate, "learning_rate", learning_rate_fields);

static const struct field mean_element = {
    .type = FIELD_DOUBLE, .min = -NORMALISE_MEAN_MAX, .max = NORMALISE_MEAN_MAX};
static const struct field std_element = {
    .type = FIELD_DOUBLE, .min = NORMALISE_STD_MIN, .max = NORMALISE_STD_MAX};
/* An element shows the members of its type. */
static const struct field augment_fields[] = {
    MEMBER_ENUM(struct augment, type, "type", FIELD_REQUIRED, augment_type_names),
    MEMBER_INT(struct augment, padding, "padding", FIELD_SKIP_EMPTY, 1, AUGMENT_PADDING_MAX,
               .about = "Required with type crop: rows and columns of zeros around a sample."),
    MEMBER_LIST(
        struct augment, normalise.mean, normalise.mean_count, "mean", FIELD_SKIP_EMPTY,
        &mean_element,
        .about =
            "Required with type normalise: a number for each channel, after the input's scale."),
    MEMBER_LIST(struct augment, normalise.std, normalise.std_count, "std", FIELD_SKIP_EMPTY,
                &std_element, .about = "As mean."),
};
static const struct record augment_record = RECORD(struct augment, "augment", augment_fields);

static const struct field devices_fields[] = {
    MEMBER_MAP(struct job_spec, device_label, device_label_count, "labels", 0, &label_record,
               .shared = "labels", .about = "Only devices with all of these labels."),
    MEMBER_INT(struct job_spec, devices_min, "min", 0, 1, STAGES_MAX,
               .about = "The job waits until this many devices are free.",
               .rule = "at most `max`; `gossip`: at least 2"),
    MEMBER_INT(struct job_spec, devices_max, "max", 0, 1, STAGES_MAX,
               .about = "The most devices that the job uses."),
    MEMBER_TEXT(struct job_spec, numeric_class, "numeric_class", FIELD_NULLABLE,
                .about = "Only devices of this class: the result is reproducible bit for bit.",
                .rule = "text, or null for any"),
};
static const struct record devices_group = RECORD(struct job_spec, "job_devices", devices_fields);

static const struct field replication_fields[] = {
    MEMBER_INT(struct job_spec, neighbor_every, "neighbor_every", 0, 0, STEPS_MAX,
               .about =
                   "Steps between two copies of each stage's state to the next device; 0: never."),
    MEMBER_INT(struct job_spec, center_every, "center_every", 0, 0, STEPS_MAX,
               .about = "Steps between two copies of the state to the coordinator, which survive "
                        "the loss of all devices; 0: copies only at a pause and at the end."),
};
const struct record job_replication_group =
    RECORD(struct job_spec, "job_replication", replication_fields);

static const struct field replan_fields[] = {
    MEMBER_INT(struct job_spec, replan_first, "first", 0, 0, STEPS_MAX,
               .about = "The step of the first check of the plan. With 0 here and in `every`, the "
                        "plan never changes by itself. See [Drift](#drift)."),
    MEMBER_INT(
        struct job_spec, replan_every, "every", 0, 0, STEPS_MAX,
        .about =
            "Steps between two later checks of the plan; 0: no checks at steps after the first."),
};
const struct record job_replan_group = RECORD(struct job_spec, "job_replan", replan_fields);

static const struct field evaluate_fields[] = {
    MEMBER_INT(struct job_spec, evaluate_every_epochs, "every_epochs", 0, 0, EPOCHS_MAX,
               .about = "Epochs between evaluations on `dataset.test`; 0: never."),
};
static const struct record evaluate_group =
    RECORD(struct job_spec, "job_evaluate", evaluate_fields);

static const struct field cut_element = {.type = FIELD_INT, .min = 1, .max = UNITS_MAX - 1};

static const struct field spec_fields[] = {
    MEMBER_FORM(struct job_spec, name, "name", 0, &name_form,
                .about = "For people; need not be unique."),
    MEMBER_RECORD(struct job_spec, model, "model", FIELD_REQUIRED, &model_record),
    MEMBER_GROUP("dataset", FIELD_REQUIRED, &job_dataset_group),
    MEMBER_OPTIONAL(struct job_spec, view, has_view, "view", 0, &job_view_record, .since = 3,
                    .about = "The part of the data set that the job trains on: some classes, or a "
                             "shard; null: all of it. See [Views](#views).",
                    .rule = "null, or a view of a data set with one label a sample"),
    MEMBER_GROUP("init", 0, &init_group),
    MEMBER_INT(struct job_spec, batch, "batch", 0, 1, BATCH_MAX, .about = "Samples of one step.",
               .rule = "divisible by `micro_batches`, at most the samples of `train`"),
    MEMBER_INT(struct job_spec, micro_batches, "micro_batches", FIELD_NULLABLE, 1,
               MICRO_BATCHES_MAX,
               .about = "Parts of a batch that travel through the stages, or that workers share; "
                        "null: 4 with `sync`, 1 with `async`. The answer states the number.",
               .rule = "1 with `async`"),
    MEMBER_INT(struct job_spec, epochs, "epochs", 0, 1, EPOCHS_MAX,
               .about = "Passes over the data; the last partial batch of an epoch is dropped."),
    MEMBER_INT(struct job_spec, steps, "steps", FIELD_NULLABLE, 1, STEPS_MAX,
               .about = "The number of steps after which the job ends, if `epochs` have more; "
                        "null: `epochs` decide."),
    MEMBER_RECORD(struct job_spec, optimizer, "optimizer", 0, &optimizer_record),
    MEMBER_RECORD(struct job_spec, learning_rate, "learning_rate", 0, &learning_rate_record),
    MEMBER_RECORDS(
        struct job_spec, augment, augment_count, "augment", 0, &augment_record,
        .about =
            "Transformations of images before the first unit. See [Augmentation](#augmentation).",
        .rule = "each type once, in this order: crop, flip, normalise"),
    MEMBER_LIST(
        struct job_spec, freeze, freeze_count, "freeze", 0, &unit_name_element,
        .about = "Units that are not trained: parameters and running statistics do not change, and "
                 "they compute as in evaluation. See [fine-tuning](fine-tuning.md#freeze-units).",
        .rule = "names of units, not all that have parameters"),
    MEMBER_JSON(
        struct job_spec, kernels, "kernels", FIELD_NULLABLE, .shared = "kernel_table",
        .about = "The kernel of each pass of each convolution; null: chosen by shape, or measured "
                 "where devices have oneDNN. Always null in an answer. See [Kernels](#kernels).",
        .rule = "null, or a table"),
    MEMBER_ENUM(struct job_spec, strategy, "strategy", 0, job_strategy_names,
                .about = "`pipeline`: stages of the model on different devices. "
                         "[`submodel`](#sub-models): slices of the model for some of the classes. "
                         "[`parameter_server`](#parameter-server): workers share each batch, and "
                         "servers keep the model. [`gossip`](#gossip): each device trains the "
                         "model on its own part of the data, and mixes with others."),
    MEMBER_OPTIONAL(struct job_spec, submodel, has_submodel, "submodel", 0,
                    &submodel_options_record, .since = 3,
                    .about =
                        "How the model and the classes are divided: [Sub-models](#sub-models).",
                    .rule = "null without strategy `submodel`"),
    MEMBER_OPTIONAL(struct job_spec, parameter_server, has_parameter_server, "parameter_server", 0,
                    &server_options_record, .since = 5,
                    .about = "Which devices keep the model, and how it travels. See "
                             "[Parameter server](#parameter-server).",
                    .rule = "null without strategy `parameter_server`"),
    MEMBER_OPTIONAL(struct job_spec, gossip, has_gossip, "gossip", 0, &gossip_options_record,
                    .since = 6,
                    .about = "How the data are divided and how groups mix: [Gossip](#gossip).",
                    .rule = "null without strategy `gossip`"),
    MEMBER_ENUM(struct job_spec, pipeline, "pipeline", 0, job_pipeline_names,
                .about = "`sync`: one update per step, after all micro-batches. The weights are "
                         "the same as on one device. `async`: no stage waits for another stage's "
                         "update. The weights depend on the plans. See [Schedules](#schedules).",
                .rule = "`async` without `optimizer.clip_norm`"),
    MEMBER_INT(struct job_spec, aggregate_every, "aggregate_every", 0, 0, STEPS_MAX,
               .about =
                   "`async`: steps between two aggregations; 0: never. An aggregation replaces the "
                   "latest weights of a stage by the mean of the versions that it keeps.",
               .rule = "0 with `sync`"),
    MEMBER_BOOL(struct job_spec, vertical_sync, "vertical_sync", 0, .since = 2,
                .about = "`async`: all stages use the same version of the weights for a batch.",
                .rule = "false with `sync`"),
    MEMBER_GROUP("devices", 0, &devices_group),
    MEMBER_GROUP("replication", 0, &job_replication_group),
    MEMBER_GROUP("replan", 0, &job_replan_group),
    MEMBER_ENUM(struct job_spec, compression, "compression", 0, compression_names,
                .about = "The codec of activations and gradients between stages; `auto`: the "
                         "planner chooses `none`, `q8` or `q4` for each boundary. Any other than "
                         "`none` makes training inexact. See [Compression](#compression).",
                .rule = "`+zstd` only in a build with zstd"),
    MEMBER_ENUM(struct job_spec, recompute, "recompute", 0, recompute_names,
                .about = "`unit`: devices keep only the inputs of units and recompute the rest: "
                         "less memory, more time, the same bits. See [memory](memory.md)."),
    MEMBER_DOUBLE(struct job_spec, expected_step_seconds, "expected_step_seconds", FIELD_NULLABLE,
                  1e-6, 86400,
                  .about = "The step time that scales the deadlines; null: the larger of the "
                           "plan's prediction and the measured step."),
    MEMBER_INT(struct job_spec, autonomy_seconds, "autonomy_seconds", 0, 0, 31536000,
               .about = "Seconds for which devices train without the coordinator."),
    MEMBER_GROUP("evaluate", 0, &evaluate_group),
    MEMBER_OPTIONAL(struct job_spec, stop, has_stop, "stop", 0, &stop_rule_record, .since = 4,
                    .about = "The rule by which evaluations end the job early; null: the job "
                             "trains all steps. See [Early stop](#early-stop).",
                    .rule = "null, or a rule; needs evaluations"),
    MEMBER_OPTIONAL(struct job_spec, checkpoint, has_checkpoint, "checkpoint", 0,
                    &checkpoint_policy_record, .since = 4,
                    .about = "Versions that become checkpoints while the job trains; null: none "
                             "does. See [Checkpoints on the way](#checkpoints-on-the-way)."),
    MEMBER_INT(struct job_spec, priority, "priority", 0, -1000, 1000,
               .about = "Jobs with a higher priority run first, then older jobs."),
    MEMBER_LIST(struct job_spec, cut, cut_count, "cuts", FIELD_NULLABLE, &cut_element,
                .about =
                    "Stage boundaries of the first plan: the indices of the units that begin a new "
                    "stage (`[2, 4]`: units 0-1, 2-3, 4 and up); null: the planner chooses.",
                .rule = "rising, 1 to units - 1, fewer than `devices.max`"),
};
const struct record job_spec_record =
    RECORD_WITH(struct job_spec, "job_spec", spec_fields,
                .about = "A request for a job. docs/jobs.md explains every field.");

const struct job_spec job_spec_default = {
    .name = "job",
    .view = {.negatives = 1},
    .submodel = SUBMODEL_OPTIONS_DEFAULT,
    .parameter_server = SERVER_OPTIONS_DEFAULT,
    .gossip = GOSSIP_OPTIONS_DEFAULT,
    .seed = 1,
    .batch = 32, /* micro_batches: job_spec_complete */
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
    .checkpoint = CHECKPOINT_POLICY_DEFAULT,
};

void job_spec_complete(struct job_spec *spec)
{
    if (spec->learning_rate.value <= 0) {
        spec->learning_rate.value = learning_rate_default(spec->model.name, spec->optimizer.type);
    }
    if (spec->micro_batches <= 0) {
        spec->micro_batches = spec->pipeline == JOB_ASYNC ? 1 : 4;
    }
}

bool job_has_judged(const struct job *job, int64_t version)
{
    const int64_t every = job_evaluate_steps(&job->spec, &job->data);
    const struct early_stop *judged = &job->early_stop;
    if (!job->spec.has_stop || every == 0 || judged->met) {
        return true;
    }
    return version <= (judged->version / every + 1) * every;
}

struct part_of job_part_of(const struct job *job)
{
    return (struct part_of){.parent = job->parent, .part = job->part, .group = job->group};
}

size_t job_versions(const struct job_spec *spec, size_t stage_count, size_t in_flight)
{
    if (spec->pipeline != JOB_ASYNC) {
        return 1;
    }
    return spec->vertical_sync ? stage_count : in_flight;
}

/* ---- state ---- */

static const struct field line_fields[] = {
    MEMBER_INT(struct line_start, generation, "generation", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The generation that started."),
    MEMBER_INT(struct line_start, first, "first", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The version that the generation started from."),
};
static const struct record line_record = RECORD(struct line_start, "line_start", line_fields);

static const struct field job_fields[] = {
    MEMBER_FORM(struct job, id.text, "id", FIELD_REQUIRED, &job_id_form,
                .about = "Made by the coordinator."),
    MEMBER_INT(struct job, revision, "revision", 0, 0, INTEGER_MAX,
               .about = "Rises with each change of state, with each committed round of copies, and "
                        "with progress at most once per heartbeat."),
    MEMBER_ENUM(struct job, state, "state", FIELD_REQUIRED, job_state_names,
                .about = "See [States](#states)."),
    MEMBER_TEXT(struct job, state_reason, "state_reason", FIELD_NULLABLE,
                .about = "A code for programs. See [States](#states)."),
    MEMBER_TEXT(struct job, message, "message", FIELD_NULLABLE,
                .about = "One sentence for people."),
    MEMBER_RECORD(struct job, spec, "spec", FIELD_REQUIRED, &job_spec_record,
                  .about = "The request with every default filled in. See [Fields](#fields)."),
    MEMBER_FORM(struct job, parent.text, "parent", FIELD_NULLABLE | FIELD_SKIP_EMPTY, &job_id_form,
                .about = "The job that this one is a part of. Left out: none."),
    MEMBER_ENUM(struct job, part, "part", FIELD_SKIP_EMPTY, job_part_names,
                .about = "Which part of `parent` the job is. Left out: no part."),
    MEMBER_INT(struct job, group, "group", FIELD_SKIP_EMPTY, 0, GROUPS_MAX,
               .about = "The group's number, from 0, if the job is a group. Left out: 0."),
    MEMBER_RECORD(struct job, data, "data", 0, &job_data_record),
    MEMBER_RECORD(struct job, progress, "progress", 0, &job_progress_record),
    MEMBER_INT(struct job, generation, "generation", 0, 0, INTEGER_MAX,
               .about = "The generation of the job's newest plan; 0: no plan yet."),
    MEMBER_INT(struct job, version, "version", 0, 0, INTEGER_MAX,
               .about = "The newest version of which the center has every unit; 0: only the seed "
                        "and the checkpoint."),
    MEMBER_INT(struct job, neighbor_version, "neighbor_version", FIELD_ADDED, 0, INTEGER_MAX,
               .about = "The newest version that survives the loss of any one device, because two "
                        "devices hold every unit. 0: only the seed survives."),
    MEMBER_BOOL(struct job, stalled, "stalled", FIELD_ADDED,
                .about = "No step completed within `deadlines.step_ms`."),
    MEMBER_RECORD(struct job, deadlines, "deadlines", FIELD_ADDED, &job_deadlines_record),
    MEMBER_RECORDS(
        struct job, line, line_count, "line", FIELD_ADDED, &line_record,
        .about = "The lineage: starts of generations, oldest first. Snapshots of an earlier "
                 "generation that are newer than a start are ignored. See [Copies](#copies)."),
    MEMBER_OPTIONAL(struct job, wish, has_wish, "replan_request", FIELD_ADDED,
                    &replan_request_record,
                    .about = "The pending replan request. It survives a restart of the "
                             "coordinator; null after the new plan runs or the request fails."),
    MEMBER_OPTIONAL(struct job, next_replication, has_next_replication, "next_replication",
                    FIELD_ADDED, &replication_periods_record,
                    .about =
                        "A change of `spec.replication` that the next plan takes; null: none."),
    MEMBER_OPTIONAL(struct job, last_check, has_last_check, "last_check", FIELD_ADDED,
                    &job_check_record,
                    .about = "The last check of the plan; null: none yet. See [Drift](#drift)."),
    MEMBER_INT(struct job, cooldown_ms, "cooldown_ms", FIELD_ADDED, 0, INTEGER_MAX,
               .about = "The length of the last cool-down in milliseconds."),
    MEMBER_TIME(
        struct job, cooldown_until_ms, "cooldown_until", FIELD_NULLABLE | FIELD_ADDED,
        .about =
            "Before this time the plan does not change by itself; null: there was no cool-down."),
    MEMBER_INT(struct job, setbacks, "setbacks", FIELD_ADDED, 0, INTEGER_MAX,
               .about =
                   "Successive changes of the plan that were undone. Each doubles the cool-down."),
    MEMBER_DOUBLE(struct job, doubt, "doubt", FIELD_ADDED, 0, 1,
                  .about = "The error of the prediction for the last undone change. A change must "
                           "gain more than this share of the step."),
    MEMBER_BOOL(struct job, corrected, "corrected", FIELD_ADDED,
                .about = "The last change of the plan corrected the one before it within its "
                         "cool-down. See [Drift](#drift)."),
    MEMBER_OPTIONAL(
        struct job, trial, has_trial, "trial", FIELD_ADDED, &job_trial_record,
        .about = "The last change of the plan, until 20 steps have confirmed it; null: none."),
    MEMBER_OPTIONAL(
        struct job, rejected, has_rejected, "rejected", FIELD_ADDED, &job_rejected_record,
        .about = "The stages of a plan that was slower than the plan before it; null: none."),
    MEMBER_OPTIONAL(
        struct job, early_stop, has_early_stop, "early_stop", FIELD_ADDED, &early_stop_record,
        .about = "The judgement of the evaluations so far by `spec.stop`; null: none yet."),
    MEMBER_RECORDS(struct job, kept, kept_count, "checkpoints", FIELD_ADDED,
                   &kept_checkpoint_record,
                   .about = "The checkpoints that `spec.checkpoint` has stored, the oldest first."),
    MEMBER_BOOL(struct job, exact, "exact", 0,
                .about = "True: the job has had one numeric class and no codec so far. Its weights "
                         "equal those of one device, bit for bit."),
    MEMBER_TEXT(struct job, numeric_class, "numeric_class", FIELD_NULLABLE,
                .about = "The numeric class of the present devices, or `mixed`."),
    MEMBER_FORM(
        struct job, checkpoint.text, "checkpoint", FIELD_NULLABLE, &checkpoint_id_form,
        .about =
            "The trained model of a succeeded job, or the model that a cancel with `keep` stored."),
    MEMBER_OPTIONAL(struct job, compute, has_compute, "compute", FIELD_ADDED,
                    &submodel_compute_record,
                    .about = "The operations of the parts of a job of sub-models so far, and what "
                             "they save. null: none yet, or another kind of job."),
    MEMBER_INT(struct job, export_version, "export_version", FIELD_NULLABLE | FIELD_ADDED, 0,
               INTEGER_MAX, .about = "The version that an export is storing; null: none."),
    MEMBER_INT(struct job, exported_version, "exported_version", FIELD_NULLABLE | FIELD_ADDED, 0,
               INTEGER_MAX, .about = "The last version that an export stored; null: none."),
    MEMBER_TIME(struct job, created_ms, "created_at", FIELD_NULLABLE, .about = "The submission."),
    MEMBER_TIME(struct job, started_ms, "started_at", FIELD_NULLABLE, .about = "The first run."),
    MEMBER_TIME(struct job, ended_ms, "ended_at", FIELD_NULLABLE, .about = "The end."),
};
const struct record job_record =
    RECORD_WITH(struct job, "job", job_fields, .answer = true,
                .about = "A training run: its request and its state. A job that ended under an "
                         "earlier version lacks newer members.");
