#include "cli/layouts.h"

/* The variable arguments are the kind of cell and further fields. */
#define COLUMN(title_, path_, ...)                                                                 \
    {                                                                                              \
        .title = (title_), .path = (path_), .cell = __VA_ARGS__                                    \
    }
/* The variable arguments are the path of the id and further fields. */
#define LAYOUT(name, rows_, columns, ...)                                                          \
    const struct layout name = {.rows = (rows_),                                                   \
                                .column = (columns),                                               \
                                .column_count = sizeof(columns) / sizeof((columns)[0]),            \
                                .id = __VA_ARGS__}

#define SUMMARY(columns)                                                                           \
    .summary = (columns), .summary_count = sizeof(columns) / sizeof((columns)[0])

static const struct column job_columns[] = {
    COLUMN("ID", "id", CELL_TEXT),
    COLUMN("NAME", "spec/name", CELL_TEXT),
    COLUMN("MODEL", "spec/model/name", CELL_TEXT, .wide = true),
    COLUMN("STATE", "state", CELL_STATE),
    COLUMN("STEP", "progress/step", CELL_TEXT, .until = "progress/steps"),
    COLUMN("LOSS", "progress/loss", CELL_TEXT),
    COLUMN("ACCURACY", "progress/accuracy", CELL_TEXT),
    COLUMN("ETA", "progress/eta_seconds", CELL_SECONDS),
    COLUMN("GENERATION", "generation", CELL_TEXT, .wide = true),
    COLUMN("CHECKPOINT", "checkpoint", CELL_TEXT, .wide = true),
    COLUMN("AGE", "created_at", CELL_AGE),
    COLUMN("MESSAGE", "message", CELL_TEXT, .wide = true),
};
LAYOUT(layout_jobs, "items", job_columns, "id", .pages = true);

static const struct column one_job_columns[] = {
    COLUMN("ID", "id", CELL_TEXT),
    COLUMN("NAME", "spec/name", CELL_TEXT),
    COLUMN("MODEL", "spec/model/name", CELL_TEXT),
    COLUMN("TRAIN", "spec/dataset/train", CELL_TEXT),
    COLUMN("TEST", "spec/dataset/test", CELL_TEXT),
    COLUMN("STATE", "state", CELL_STATE),
    COLUMN("REASON", "state_reason", CELL_TEXT),
    COLUMN("MESSAGE", "message", CELL_TEXT),
    COLUMN("STEP", "progress/step", CELL_TEXT, .until = "progress/steps"),
    COLUMN("EPOCH", "progress/epoch", CELL_TEXT),
    COLUMN("LOSS", "progress/loss", CELL_TEXT),
    COLUMN("ACCURACY", "progress/accuracy", CELL_TEXT),
    COLUMN("SAMPLES/S", "progress/samples_per_second", CELL_TEXT),
    COLUMN("ETA", "progress/eta_seconds", CELL_SECONDS),
    COLUMN("GENERATION", "generation", CELL_TEXT),
    COLUMN("VERSION", "version", CELL_TEXT),
    COLUMN("CHECKPOINT", "checkpoint", CELL_TEXT),
    COLUMN("AGE", "created_at", CELL_AGE),
};
LAYOUT(layout_job, "", one_job_columns, "id");

static const struct column plan_columns[] = {
    COLUMN("GENERATION", "generation", CELL_TEXT),
    COLUMN("STATE", "state", CELL_TEXT),
    COLUMN("REASON", "reason", CELL_TEXT),
    COLUMN("DEVICES", "stages", CELL_DEVICES),
    COLUMN("PREDICTED", "predicted_step_seconds", CELL_SECONDS),
    COLUMN("MEASURED", "measured_step_seconds", CELL_SECONDS),
    COLUMN("FROM", "resume_version", CELL_TEXT, .wide = true),
    COLUMN("OPTIMAL", "optimal", CELL_TEXT, .wide = true),
    COLUMN("GAP", "gap", CELL_SHARE, .wide = true),
    COLUMN("AGE", "created_at", CELL_AGE),
};
LAYOUT(layout_plans, "items", plan_columns, "generation", .pages = true);

static const struct column stage_columns[] = {
    COLUMN("STAGE", ".", CELL_TEXT),
    COLUMN("DEVICE", "device", CELL_DEVICE),
    COLUMN("FIRST", "first", CELL_TEXT),
    COLUMN("END", "end", CELL_TEXT),
    COLUMN("SHARE", "share", CELL_RANGE),
    COLUMN("IN_FLIGHT", "in_flight", CELL_TEXT),
    COLUMN("CODEC", "codec", CELL_TEXT),
    COLUMN("MEMORY", "memory_bytes", CELL_BYTES),
    COLUMN("BUSY", "predicted_busy", CELL_SHARE),
    COLUMN("FORWARD", "predicted_forward_seconds", CELL_SECONDS),
    COLUMN("BACKWARD", "predicted_backward_seconds", CELL_SECONDS),
    COLUMN("PULL", "predicted_pull_seconds", CELL_SECONDS, .wide = true),
    COLUMN("PUSH", "predicted_push_seconds", CELL_SECONDS, .wide = true),
    COLUMN("MEASURED_FORWARD", "measured_forward_seconds", CELL_SECONDS, .wide = true),
    COLUMN("MEASURED_BACKWARD", "measured_backward_seconds", CELL_SECONDS, .wide = true),
};
static const struct column plan_summary[] = {
    COLUMN("STATE", "state", CELL_TEXT),
    COLUMN("REASON", "reason", CELL_TEXT),
    COLUMN("PREDICTED", "predicted_step_seconds", CELL_SECONDS),
    COLUMN("MEASURED", "measured_step_seconds", CELL_SECONDS),
    COLUMN("EFFICIENCY", "predicted_efficiency", CELL_SHARE),
};
LAYOUT(layout_plan, "stages", stage_columns, "device", SUMMARY(plan_summary));

/* The preview of a job: `at` is the path of its plan, "" or "plan/". */
#define PREVIEW_STARTS(at)                                                                         \
    COLUMN("STARTS", at "starts", CELL_TEXT), COLUMN("WAITING_FOR", at "waiting_for", CELL_TEXT)
#define MIXES_SUMMARY(at)                                                                          \
    PREVIEW_STARTS(at), COLUMN("PERIOD", at "gossip/period_seconds", CELL_SECONDS),                \
        COLUMN("COPY", at "gossip/copy_bytes", CELL_BYTES),                                        \
        COLUMN("EPOCH", at "gossip/epoch_seconds", CELL_SECONDS),                                  \
        COLUMN("TOTAL", at "gossip/total_seconds", CELL_SECONDS),                                  \
        COLUMN("ROUNDS", at "gossip/rounds_seconds", CELL_SECONDS),                                \
        COLUMN("SIZED_ROUNDS", at "gossip/sized_rounds_seconds", CELL_SECONDS),                    \
        COLUMN("PIPELINE", at "gossip/pipeline_seconds", CELL_SECONDS),                            \
        COLUMN("SINGLE", at "gossip/single_seconds", CELL_SECONDS),                                \
        COLUMN("FASTEST", at "gossip/fastest", CELL_TEXT)
#define SLICES_SUMMARY(at)                                                                         \
    PREVIEW_STARTS(at), COLUMN("STEM", at "submodel/stem_seconds", CELL_SECONDS),                  \
        COLUMN("GROUPS", at "submodel/groups_seconds", CELL_SECONDS),                              \
        COLUMN("JOINT", at "submodel/joint_seconds", CELL_SECONDS),                                \
        COLUMN("TOTAL", at "submodel/total_seconds", CELL_SECONDS),                                \
        COLUMN("PIPELINE", at "submodel/pipeline_seconds", CELL_SECONDS),                          \
        COLUMN("SINGLE", at "submodel/single_seconds", CELL_SECONDS),                              \
        COLUMN("FASTEST", at "submodel/fastest", CELL_TEXT)

static const struct column mixes_columns[] = {
    COLUMN("GROUP", ".", CELL_TEXT),
    COLUMN("DEVICE", "name", CELL_TEXT),
    COLUMN("SAMPLES", "samples", CELL_TEXT),
    COLUMN("SAMPLES/S", "samples_per_second", CELL_TEXT),
    COLUMN("EVERY", "every", CELL_TEXT),
    COLUMN("SLOWS", "slows", CELL_TEXT, .wide = true),
    COLUMN("GIVES/S", "given_bytes_per_second", CELL_BYTES),
    COLUMN("TAKES/S", "taken_bytes_per_second", CELL_BYTES),
    COLUMN("LINK", "link_share", CELL_SHARE),
};
static const struct column mixes_summary[] = {MIXES_SUMMARY("")};
static LAYOUT(mixes_preview, "gossip/groups", mixes_columns, "device", SUMMARY(mixes_summary));
static const struct column mixes_forecast_summary[] = {MIXES_SUMMARY("plan/")};
static LAYOUT(mixes_forecast, "plan/gossip/groups", mixes_columns, "device",
              SUMMARY(mixes_forecast_summary));

static const struct column slices_columns[] = {
    COLUMN("GROUP", "group", CELL_TEXT),
    COLUMN("DEVICE", "name", CELL_TEXT),
    COLUMN("CLASSES", "classes", CELL_NUMBERS),
    COLUMN("WIDTH", "width", CELL_SHARE),
    COLUMN("SAMPLES", "samples", CELL_TEXT),
    COLUMN("MEMORY", "memory_bytes", CELL_BYTES),
    COLUMN("BEGINS", "begins_seconds", CELL_SECONDS),
    COLUMN("SECONDS", "seconds", CELL_SECONDS),
    COLUMN("FAILURE", "failure", CELL_TEXT, .wide = true),
};
static const struct column slices_summary[] = {SLICES_SUMMARY("")};
static LAYOUT(slices_preview, "submodel/groups", slices_columns, "device", SUMMARY(slices_summary));
static const struct column slices_forecast_summary[] = {SLICES_SUMMARY("plan/")};
static LAYOUT(slices_forecast, "plan/submodel/groups", slices_columns, "device",
              SUMMARY(slices_forecast_summary));

static const struct column preview_summary[] = {
    PREVIEW_STARTS(""),
    COLUMN("STEP", "predicted_step_seconds", CELL_SECONDS),
    COLUMN("TOTAL", "predicted_total_seconds", CELL_SECONDS),
    COLUMN("EFFICIENCY", "predicted_efficiency", CELL_SHARE),
    COLUMN("PIPELINE_STEP", "parameter_server/pipeline_step_seconds", CELL_SECONDS),
    COLUMN("SINGLE_STEP", "parameter_server/single_step_seconds", CELL_SECONDS),
    COLUMN("FASTEST", "parameter_server/fastest", CELL_TEXT),
};
static const struct layout *const preview_variants[] = {&mixes_preview, &slices_preview, NULL};
LAYOUT(layout_preview, "stages", stage_columns, "device", SUMMARY(preview_summary),
       .variant = preview_variants);

static const struct column forecast_summary[] = {
    PREVIEW_STARTS("plan/"),
    COLUMN("STEP", "plan/predicted_step_seconds", CELL_SECONDS),
    COLUMN("TOTAL", "plan/predicted_total_seconds", CELL_SECONDS),
    COLUMN("EFFICIENCY", "plan/predicted_efficiency", CELL_SHARE),
    COLUMN("FROM", "resume_version", CELL_TEXT),
    COLUMN("STEPS_LOST", "steps_lost", CELL_TEXT),
    COLUMN("PIPELINE_STEP", "plan/parameter_server/pipeline_step_seconds", CELL_SECONDS),
    COLUMN("SINGLE_STEP", "plan/parameter_server/single_step_seconds", CELL_SECONDS),
    COLUMN("FASTEST", "plan/parameter_server/fastest", CELL_TEXT),
};
static const struct layout *const forecast_variants[] = {&mixes_forecast, &slices_forecast, NULL};
LAYOUT(layout_forecast, "plan/stages", stage_columns, "device", SUMMARY(forecast_summary),
       .variant = forecast_variants);

static const struct column incident_columns[] = {
    COLUMN("ID", "id", CELL_TEXT),
    COLUMN("STATE", "state", CELL_TEXT),
    COLUMN("CAUSE", "cause", CELL_TEXT),
    COLUMN("DEVICES", "devices", CELL_DEVICES),
    COLUMN("JOB", "job", CELL_TEXT, .wide = true),
    COLUMN("REDONE", "steps_redone", CELL_TEXT),
    COLUMN("DETECT", "seconds/detect", CELL_SECONDS),
    COLUMN("DECIDE", "seconds/decide", CELL_SECONDS, .wide = true),
    COLUMN("FETCH", "seconds/fetch", CELL_SECONDS, .wide = true),
    COLUMN("REBUILD", "seconds/rebuild", CELL_SECONDS, .wide = true),
    COLUMN("RESUME", "seconds/resume", CELL_SECONDS),
    COLUMN("AGE", "timeline/suspected_at", CELL_AGE),
    COLUMN("MESSAGE", "message", CELL_TEXT, .wide = true),
};
LAYOUT(layout_incidents, "items", incident_columns, "id", .pages = true);
LAYOUT(layout_incident, "", incident_columns, "id");

static const struct column metric_columns[] = {
    COLUMN("STEP", "step", CELL_TEXT),
    COLUMN("NAME", "name", CELL_TEXT),
    COLUMN("VALUE", "value", CELL_TEXT),
    COLUMN("PART", "part", CELL_TEXT, .wide = true),
    COLUMN("GROUP", "group", CELL_TEXT, .wide = true),
};
LAYOUT(layout_metrics, "items", metric_columns, "step", .pages = true);

static const struct column mix_columns[] = {
    COLUMN("ID", "id", CELL_TEXT, .wide = true),
    COLUMN("MATCH", "record/xid/counter", CELL_TEXT),
    COLUMN("KIND", "record/kind", CELL_TEXT),
    COLUMN("GROUP", "record/own/group", CELL_TEXT),
    COLUMN("GENERATION", "record/own/generation", CELL_TEXT, .wide = true),
    COLUMN("PEERS", "record/peers", CELL_NUMBERS),
    COLUMN("STEP", "record/applied_step", CELL_TEXT),
    COLUMN("ALPHA", "record/alpha", CELL_TEXT),
    COLUMN("RATE_STEP", "record/rate_step", CELL_TEXT, .wide = true),
    COLUMN("AGE", "created_at", CELL_AGE),
};
LAYOUT(layout_mixes, "items", mix_columns, "id", .pages = true);

static const struct column loss_columns[] = {
    COLUMN("LOST", "devices", CELL_DEVICES),
    COLUMN("CONTINUES", "can_continue", CELL_TEXT),
    COLUMN("FROM", "resume_version", CELL_TEXT),
    COLUMN("STEPS_LOST", "steps_lost", CELL_TEXT),
};
LAYOUT(layout_replicas, "single", loss_columns, "devices");

static const struct column device_columns[] = {
    COLUMN("ID", "id", CELL_TEXT),
    COLUMN("NAME", "name", CELL_TEXT),
    COLUMN("STATE", "state", CELL_STATE),
    COLUMN("GFLOPS", "probe/gemm_gflops", CELL_TEXT),
    COLUMN("FREE", "probe/free_memory_bytes", CELL_BYTES),
    COLUMN("JOB", "job", CELL_TEXT),
    COLUMN("SEEN", "last_seen_at", CELL_AGE),
    COLUMN("ADDRESS", "address", CELL_TEXT, .wide = true),
    COLUMN("CORES", "inventory/cores", CELL_TEXT, .wide = true),
    COLUMN("CPU", "inventory/cpu", CELL_TEXT, .wide = true),
    COLUMN("AGENT", "inventory/agent_version", CELL_TEXT, .wide = true),
    COLUMN("AGE", "created_at", CELL_AGE, .wide = true),
};
LAYOUT(layout_devices, "items", device_columns, "id", .pages = true);

static const struct column one_device_columns[] = {
    COLUMN("ID", "id", CELL_TEXT),
    COLUMN("NAME", "name", CELL_TEXT),
    COLUMN("STATE", "state", CELL_STATE),
    COLUMN("JOB", "job", CELL_TEXT),
    COLUMN("SEEN", "last_seen_at", CELL_AGE),
    COLUMN("ADDRESS", "address", CELL_TEXT),
    COLUMN("ARCHITECTURE", "inventory/architecture", CELL_TEXT),
    COLUMN("CPU", "inventory/cpu", CELL_TEXT),
    COLUMN("CORES", "inventory/cores", CELL_TEXT),
    COLUMN("MEMORY", "inventory/memory_bytes", CELL_BYTES),
    COLUMN("FREE", "probe/free_memory_bytes", CELL_BYTES),
    COLUMN("GFLOPS", "probe/gemm_gflops", CELL_TEXT),
    COLUMN("AGENT", "inventory/agent_version", CELL_TEXT),
    COLUMN("PROTOCOL", "protocol", CELL_TEXT),
    COLUMN("CLASS", "numeric_class", CELL_TEXT),
    COLUMN("KEY", "public_key", CELL_TEXT),
    COLUMN("JOINED BY", "join_token", CELL_TEXT),
    COLUMN("AGE", "created_at", CELL_AGE),
};
LAYOUT(layout_device, "", one_device_columns, "id");

static const struct column link_columns[] = {
    COLUMN("FROM", "from", CELL_DEVICE),
    COLUMN("TO", "to", CELL_DEVICE),
    COLUMN("KIND", "kind", CELL_TEXT),
    COLUMN("CODEC", "codec", CELL_TEXT),
    COLUMN("TRANSFERS", "transfers", CELL_TEXT),
    COLUMN("MEAN", "mean_seconds", CELL_SECONDS),
    COLUMN("MEAN_BYTES", "mean_bytes", CELL_BYTES),
    COLUMN("LATENCY", "latency_seconds", CELL_SECONDS),
    COLUMN("RATE/S", "bytes_per_second", CELL_BYTES),
    COLUMN("AGE", "at", CELL_AGE),
};
LAYOUT(layout_links, "items", link_columns, "to", .pages = true);

static const struct column measurement_columns[] = {
    COLUMN("JOB", "job", CELL_TEXT),
    COLUMN("UNIT", "unit", CELL_TEXT),
    COLUMN("FORWARD", "forward_seconds", CELL_SECONDS),
    COLUMN("BACKWARD", "backward_seconds", CELL_SECONDS),
    COLUMN("AGE", "at", CELL_AGE),
};
LAYOUT(layout_measurements, "items", measurement_columns, "unit", .pages = true);

static const struct column dataset_columns[] = {
    COLUMN("NAME", "name", CELL_TEXT),         COLUMN("SAMPLES", "samples", CELL_TEXT),
    COLUMN("HEIGHT", "height", CELL_TEXT),     COLUMN("WIDTH", "width", CELL_TEXT),
    COLUMN("CHANNELS", "channels", CELL_TEXT), COLUMN("CLASSES", "classes", CELL_TEXT),
    COLUMN("SIZE", "size_bytes", CELL_BYTES),  COLUMN("SHA256", "sha256", CELL_SHORT),
    COLUMN("AGE", "created_at", CELL_AGE),
};
LAYOUT(layout_datasets, "items", dataset_columns, "name", .pages = true);
LAYOUT(layout_dataset, "", dataset_columns, "name");

static const struct column model_columns[] = {
    COLUMN("NAME", "name", CELL_TEXT),
    COLUMN("SHA256", "sha256", CELL_SHORT),
    COLUMN("AGE", "created_at", CELL_AGE),
};
LAYOUT(layout_models, "items", model_columns, "name", .pages = true);
LAYOUT(layout_model_row, "", model_columns, "name");

static const struct column unit_columns[] = {
    COLUMN("UNIT", ".", CELL_TEXT),
    COLUMN("NAME", "name", CELL_TEXT),
    COLUMN("HEIGHT", "output/height", CELL_TEXT),
    COLUMN("WIDTH", "output/width", CELL_TEXT),
    COLUMN("CHANNELS", "output/channels", CELL_TEXT),
    COLUMN("PARAMETERS", "parameters", CELL_TEXT),
    COLUMN("ACTIVATIONS", "activation_bytes", CELL_BYTES),
    COLUMN("OUTPUT", "output_bytes", CELL_BYTES),
    COLUMN("FORWARD_FLOPS", "forward_flops", CELL_TEXT, .wide = true),
    COLUMN("BACKWARD_FLOPS", "backward_flops", CELL_TEXT, .wide = true),
};
LAYOUT(layout_model_units, "units", unit_columns, "name");

static const struct column checkpoint_columns[] = {
    COLUMN("ID", "id", CELL_TEXT),           COLUMN("JOB", "job", CELL_TEXT),
    COLUMN("VERSION", "version", CELL_TEXT), COLUMN("SIZE", "size_bytes", CELL_BYTES),
    COLUMN("SHA256", "sha256", CELL_SHORT),  COLUMN("AGE", "created_at", CELL_AGE),
};
LAYOUT(layout_checkpoints, "items", checkpoint_columns, "id", .pages = true);
LAYOUT(layout_checkpoint, "", checkpoint_columns, "id");

static const struct column version_columns[] = {
    COLUMN("NAME", "name", CELL_TEXT),
    COLUMN("VERSION", "version", CELL_TEXT),
    COLUMN("PROTOCOL", "protocol", CELL_TEXT),
};
LAYOUT(layout_version, "versions", version_columns, "version");

static const struct column context_columns[] = {
    COLUMN("CURRENT", "current", CELL_TEXT),
    COLUMN("NAME", "name", CELL_TEXT),
    COLUMN("URL", "url", CELL_TEXT),
    COLUMN("TOKEN", "token", CELL_TEXT),
    COLUMN("CA", "ca", CELL_TEXT, .wide = true),
};
LAYOUT(layout_contexts, "items", context_columns, "name");

static const struct column token_columns[] = {
    COLUMN("ID", "id", CELL_TEXT),
    COLUMN("NAME", "name", CELL_TEXT),
    COLUMN("ROLE", "role", CELL_TEXT),
    COLUMN("STATE", "state", CELL_STATE),
    COLUMN("EXPIRES", "expires_at", CELL_TEXT),
    COLUMN("USES", "uses_left", CELL_TEXT),
    COLUMN("USED", "last_used_at", CELL_AGE),
    COLUMN("AGE", "created_at", CELL_AGE),
    COLUMN("DEVICE", "device", CELL_DEVICE, .wide = true),
    COLUMN("BYTES", "used_bytes", CELL_BYTES, .wide = true),
    COLUMN("MAX-BYTES", "max_bytes", CELL_BYTES, .wide = true),
    COLUMN("JOBS", "used_jobs", CELL_TEXT, .wide = true),
    COLUMN("MAX-JOBS", "max_jobs", CELL_TEXT, .wide = true),
};
LAYOUT(layout_tokens, "items", token_columns, "id", .pages = true);

static const struct column one_token_columns[] = {
    COLUMN("ID", "id", CELL_TEXT),
    COLUMN("NAME", "name", CELL_TEXT),
    COLUMN("ROLE", "role", CELL_TEXT),
    COLUMN("STATE", "state", CELL_STATE),
    COLUMN("EXPIRES", "expires_at", CELL_TEXT),
    COLUMN("USES", "uses_left", CELL_TEXT),
    COLUMN("USED", "last_used_at", CELL_AGE),
    COLUMN("DEVICE", "device", CELL_DEVICE),
    COLUMN("MAX-BYTES", "max_bytes", CELL_BYTES),
    COLUMN("MAX-JOBS", "max_jobs", CELL_TEXT),
    COLUMN("TOKEN", "token", CELL_TEXT),
};
LAYOUT(layout_token, "", one_token_columns, "id");

static const struct column audit_columns[] = {
    COLUMN("TIME", "created_at", CELL_TEXT),
    COLUMN("TOKEN", "token_name", CELL_TEXT),
    COLUMN("ADDRESS", "address", CELL_TEXT, .wide = true),
    COLUMN("STATUS", "status", CELL_TEXT),
    COLUMN("METHOD", "method", CELL_TEXT),
    COLUMN("PATH", "path", CELL_TEXT),
    COLUMN("SUBJECT", "subject", CELL_TEXT, .wide = true),
};
LAYOUT(layout_audit, "items", audit_columns, "id", .pages = true);

static const struct column finding_columns[] = {
    COLUMN("RESULT", "result", CELL_TEXT),
    COLUMN("CHECK", "check", CELL_TEXT),
    COLUMN("MESSAGE", "message", CELL_TEXT),
};
LAYOUT(layout_findings, "items", finding_columns, "check");
