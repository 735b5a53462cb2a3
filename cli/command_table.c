#include "cli/command_table.h"

#include <string.h>

#include "cli/account.h"
#include "cli/completion.h"
#include "cli/content.h"
#include "cli/doctor.h"
#include "cli/events.h"
#include "cli/groups.h"
#include "cli/job.h"
#include "cli/version.h"

/* The variable arguments are the help and further fields. */
#define TEXT(key, option, value, ...)                                                              \
    [option] = {.name = (key),                                                                     \
                .type = CONF_TEXT,                                                                 \
                .offset = offsetof(struct options, text) + (size_t)(option)*OPTION_TEXT_SIZE,      \
                .size = OPTION_TEXT_SIZE,                                                          \
                .value_name = (value),                                                             \
                .help = __VA_ARGS__}
#define FLAG(key, option, ...)                                                                     \
    [option] = {.name = (key),                                                                     \
                .type = CONF_FLAG,                                                                 \
                .offset = offsetof(struct options, flag) + (size_t)(option) * sizeof(bool),        \
                .help = __VA_ARGS__}

const struct conf_option option_table[OPTION_COUNT] = {
    TEXT("server", OPTION_SERVER, "URL",
         "Address of the coordinator.\n"
         "Default: $PACELINE_URL, else the context's, else http://127.0.0.1:7410."),
    TEXT("context", OPTION_CONTEXT, "CONTEXT",
         "Use the address and token of this context. Default: the current one."),
    TEXT("format", OPTION_FORMAT, "FORMAT",
         "How to write the answer: table, wide or json. Default: table;\n"
         "json for one object if the output is not a terminal."),
    FLAG("quiet", OPTION_QUIET, "Write ids only. Default: off.", .letter = 'q'),
    FLAG("curl", OPTION_CURL, "Write the equivalent curl command; change nothing. Default: off."),
    TEXT("ca", OPTION_CA, "FILE",
         "Trust the certificates in this file and no others. Default: the system's."),
    TEXT("ca-sha256", OPTION_CA_SHA256, "HASH",
         "Fetch the authority of the coordinator and trust it, if it has this SHA-256, which\n"
         "'paceline-coordinator init' prints. Default: none."),
    TEXT("role", OPTION_ROLE, "ROLE", "What the token may do. Default: read."),
    FLAG("join", OPTION_JOIN, "Make a token for 'paceline-agent join'. Default: off."),
    TEXT("uses", OPTION_USES, "N", "How many devices may join with the token. Default: 1."),
    TEXT("max-bytes", OPTION_MAX_BYTES, "N",
         "How many bytes the token may upload, all uploads together. Default: any."),
    TEXT("max-jobs", OPTION_MAX_JOBS, "N",
         "How many jobs the token may submit or clone. Default: any."),
    FLAG("pending", OPTION_PENDING,
         "Devices that join with the token wait for device accept. Default: off."),
    TEXT("expires", OPTION_EXPIRES, "TIME",
         "How long the token is valid: seconds, or 30m, 12h, 7d. Default: a day for joining,\n"
         "else for ever."),
    FLAG("wait", OPTION_WAIT, "Watch the job to its end. Default: off.", .letter = 'w'),
    TEXT("get", OPTION_GET, "FILE",
         "Watch the job to its end and download its model. Default: none."),
    TEXT("output", OPTION_OUTPUT, "FILE",
         "Write the content to this file; - is the standard output.\nDefault: show its record.",
         .letter = 'o'),
    [OPTION_SET] = {.name = "set",
                    .type = CONF_LIST,
                    .offset = offsetof(struct options, set),
                    .value_name = "FIELD=VALUE",
                    .help = "Set a field, such as optimizer.type=adamw; repeatable. "
                            "Default: none."},
    TEXT("name", OPTION_NAME, "NAME",
         "Name of the new job; of a list, only items of this name, or with NAME* of names that\n"
         "begin so. Default: that of the file or of the cloned job, else that of --model;\n"
         "all items."),
    TEXT("state", OPTION_STATE, "STATE,...", "Only items in one of these states. Default: all."),
    TEXT("label", OPTION_LABEL, "KEY=VALUE,...",
         "Only devices with all these labels. Default: all."),
    TEXT("order", OPTION_ORDER, "ORDER",
         "asc: rising by time, or by name; desc: falling. Default: the API's."),
    TEXT("model", OPTION_MODEL, "MODEL", "Name of the model. Default: that of the file."),
    TEXT("train", OPTION_TRAIN, "DATA",
         "Training data: a file or directory, uploaded unless it is there, or the\n"
         "name of a data set. Default: that of the file."),
    TEXT("test", OPTION_TEST, "DATA", "Test data, likewise. Default: that of the file."),
    TEXT("epochs", OPTION_EPOCHS, "N", "Passes over the training data. Default: the API's."),
    TEXT("steps", OPTION_STEPS, "N", "End the job after N steps. Default: by the epochs."),
    TEXT("batch", OPTION_BATCH, "N", "Samples of a step. Default: the API's."),
    FLAG("dry-run", OPTION_DRY_RUN,
         "Show the plan that the job would get; submit nothing. Default: off."),
    FLAG("keep", OPTION_KEEP, "Store the newest whole version as a checkpoint. Default: off."),
    TEXT("from", OPTION_FROM, "WHICH", "The checkpoint to start from: best or last. Required."),
    TEXT("cuts", OPTION_CUTS, "UNIT,...",
         "The first unit of each stage but the first. Default: the planner's."),
    TEXT("devices", OPTION_DEVICES, "DEVICE,...",
         "The devices of the plan, in order. Default: the planner's."),
    TEXT("without", OPTION_WITHOUT, "DEVICE,...",
         "Devices that the plan leaves out. Default: none."),
    TEXT("generation", OPTION_GENERATION, "N",
         "Return to the plan of this generation. Default: a new plan."),
    TEXT("servers", OPTION_SERVERS, "N",
         "With a parameter server: how many devices keep the model. Default: the job's."),
    TEXT("share-ends", OPTION_SHARE_ENDS, "END,...",
         "With a parameter server: one past the last micro-batch of each device; 0: it\n"
         "computes none. Needs --cuts and --devices. Default: the planner's."),
    TEXT("job", OPTION_JOB, "JOB", "The job in question. Default: none."),
    TEXT("dataset", OPTION_DATASET, "DATASET",
         "The data set that gives the shape of the input. Default: the usual shape."),
    TEXT("metric", OPTION_METRIC, "METRIC", "Only this metric. Default: all."),
    TEXT("since", OPTION_SINCE, "STEP", "Only later steps. Default: all."),
    TEXT("after", OPTION_AFTER, "EVENT", "Start after this event. Default: with new events."),
    TEXT("text", OPTION_TEXT, "T", "Plain text, in samples of T bytes. Default: by content."),
    TEXT("sound", OPTION_SOUND, "HZ", "WAV files of this sampling rate. Default: by content."),
    TEXT("size", OPTION_SIZE, "HxW", "Height and width of image files. Default: theirs."),
    TEXT("channels", OPTION_CHANNELS, "N", "Channels of image files: 1 or 3. Default: 3."),
};

const struct option_use option_uses[OPTION_COUNT] = {
    [OPTION_FORMAT] = {.choices = "table wide json"},
    [OPTION_ROLE] = {.field = "role", .choices = "join read submit operate admin"},
    [OPTION_JOIN] = {.field = "role", .word = "join"},
    [OPTION_USES] = {.field = "uses", .value = VALUE_NUMBER},
    [OPTION_MAX_BYTES] = {.field = "max_bytes", .value = VALUE_NUMBER},
    [OPTION_MAX_JOBS] = {.field = "max_jobs", .value = VALUE_NUMBER},
    [OPTION_PENDING] = {.field = "pending"},
    [OPTION_EXPIRES] = {.field = "expires_seconds", .value = VALUE_DURATION},
    [OPTION_NAME] = {.query = "name", .field = "name"},
    [OPTION_STATE] = {.query = "state"},
    [OPTION_LABEL] = {.query = "label"},
    [OPTION_ORDER] = {.query = "order", .choices = "asc desc"},
    [OPTION_MODEL] = {.field = "model.name"},
    [OPTION_TRAIN] = {.field = "dataset.train", .value = VALUE_TRAIN},
    [OPTION_TEST] = {.field = "dataset.test", .value = VALUE_TEST},
    [OPTION_EPOCHS] = {.field = "epochs", .value = VALUE_NUMBER},
    [OPTION_STEPS] = {.field = "steps", .value = VALUE_NUMBER},
    [OPTION_BATCH] = {.field = "batch", .value = VALUE_NUMBER},
    [OPTION_DRY_RUN] = {.query = "dry_run"},
    [OPTION_KEEP] = {.query = "keep"},
    [OPTION_FROM] = {.field = "from", .choices = "best last"},
    [OPTION_CUTS] = {.field = "cuts", .value = VALUE_NUMBERS},
    [OPTION_DEVICES] = {.field = "devices", .value = VALUE_DEVICES},
    [OPTION_WITHOUT] = {.field = "without", .value = VALUE_DEVICES},
    [OPTION_GENERATION] = {.field = "generation", .value = VALUE_NUMBER},
    [OPTION_SERVERS] = {.field = "servers", .value = VALUE_NUMBER},
    [OPTION_SHARE_ENDS] = {.field = "share_ends", .value = VALUE_NUMBERS},
    [OPTION_JOB] = {.query = "job", .field = "job", .value = VALUE_JOB},
    [OPTION_DATASET] = {.query = "dataset", .value = VALUE_DATASET},
    [OPTION_METRIC] = {.query = "name",
                       .choices = "loss step_seconds test_loss test_accuracy recall least_recall "
                                  "pull_seconds push_seconds segments_pull segments_push "
                                  "mix_seconds distance period_cv gap_seconds"},
    [OPTION_SINCE] = {.query = "since", .value = VALUE_NUMBER},
    [OPTION_TEXT] = {.query = "text", .value = VALUE_NUMBER},
    [OPTION_SOUND] = {.query = "sound", .value = VALUE_NUMBER},
    [OPTION_SIZE] = {.query = "size"},
    [OPTION_CHANNELS] = {.query = "channels", .value = VALUE_NUMBER},
};

const struct thing things[ARGUMENT_THINGS] = {
    [ARGUMENT_JOB] = {"job", "job_", "/v1/jobs", "spec/name"},
    [ARGUMENT_DEVICE] = {"device", "dev_", "/v1/devices", "name"},
    [ARGUMENT_CHECKPOINT] = {"checkpoint", "ckpt_", "/v1/checkpoints", NULL},
    [ARGUMENT_INCIDENT] = {"incident", "inc_", "/v1/incidents", NULL},
    [ARGUMENT_TOKEN_ROW] = {"token", "tok_", "/v1/tokens", "name"},
    [ARGUMENT_DATASET] = {"data set", NULL, "/v1/datasets", "name"},
    [ARGUMENT_MODEL] = {"model", NULL, "/v1/models", "name"},
};

#define WITH(kind_, name_)                                                                         \
    .argument = {                                                                                  \
        {.kind = (kind_), .name = (name_)},                                                        \
    }
#define JOB WITH(ARGUMENT_JOB, "JOB")
#define DEVICE WITH(ARGUMENT_DEVICE, "DEVICE")
#define GET .method = "GET", .path
#define POST .method = "POST", .path
#define OPTION(name_) OPTION_BIT(OPTION_##name_)

const struct command commands[] = {
    {"job", "submit", "Submit a job, described by a file, standard input (-) or options.",
     .argument = {{.kind = ARGUMENT_FILE, .name = "FILE.json", .optional = true}},
     .options = OPTION(WAIT) | OPTION(GET) | OPTION(DRY_RUN) | OPTION(NAME) | OPTION(MODEL) |
                OPTION(TRAIN) | OPTION(TEST) | OPTION(EPOCHS) | OPTION(STEPS) | OPTION(BATCH) |
                OPTION(SET),
     POST = "/v1/jobs", .body = BODY_FIELDS, .layout = &layout_preview, .run = job_submit},
    {"job", "list", "List the jobs, the oldest first.",
     .options = OPTION(STATE) | OPTION(NAME) | OPTION(ORDER), GET = "/v1/jobs",
     .layout = &layout_jobs},
    {"job", "get", "Show a job.", JOB, GET = "/v1/jobs/{0}", .layout = &layout_job},
    {"job", "watch", "Follow a job to its end.", JOB, GET = "/v1/jobs/{0}", .run = job_watch},
    {"job", "pause", "Pause a job after its present step.", JOB, POST = "/v1/jobs/{0}/pause",
     .layout = &layout_job},
    {"job", "resume", "Resume a paused job.", JOB, POST = "/v1/jobs/{0}/resume",
     .layout = &layout_job},
    {"job", "cancel", "End a job.", JOB, .options = OPTION(KEEP), POST = "/v1/jobs/{0}/cancel",
     .layout = &layout_job},
    {"job", "delete", "Delete an ended job with its plans, metrics and checkpoints.", JOB,
     .method = "DELETE", .path = "/v1/jobs/{0}"},
    {"job", "export", "Store the newest whole version of a job as a checkpoint.", JOB,
     POST = "/v1/jobs/{0}/export", .layout = &layout_job},
    {"job", "clone", "Submit a new job that starts from a checkpoint of a job.", JOB,
     .options = OPTION(FROM) | OPTION(WAIT) | OPTION(GET) | OPTION(DRY_RUN) | OPTION(NAME) |
                OPTION(TRAIN) | OPTION(TEST) | OPTION(EPOCHS) | OPTION(STEPS) | OPTION(BATCH) |
                OPTION(SET),
     POST = "/v1/jobs/{0}/clone", .body = BODY_FIELDS, .layout = &layout_preview, .run = job_clone},
    {"job", "replan", "Give a running job a new plan.", JOB,
     .options =
         OPTION(CUTS) | OPTION(DEVICES) | OPTION(GENERATION) | OPTION(SERVERS) | OPTION(SHARE_ENDS),
     POST = "/v1/jobs/{0}/replan", .body = BODY_FIELDS, .layout = &layout_job},
    {"job", "change", "Change replan and replication of a job.", JOB, .options = OPTION(SET),
     .method = "PATCH", .path = "/v1/jobs/{0}", .body = BODY_FIELDS, .layout = &layout_job},
    {"job", "plans", "List the plans that a job has had.", JOB, .options = OPTION(ORDER),
     GET = "/v1/jobs/{0}/plans", .layout = &layout_plans},
    {"job", "plan", "Show the stages of one plan of a job.",
     .argument = {{.kind = ARGUMENT_JOB, .name = "JOB"},
                  {.kind = ARGUMENT_NUMBER, .name = "GENERATION"}},
     GET = "/v1/jobs/{0}/plans/{1}", .layout = &layout_plan},
    {"job", "incidents", "List the failures of a job.", JOB,
     .options = OPTION(STATE) | OPTION(ORDER), GET = "/v1/jobs/{0}/incidents",
     .layout = &layout_incidents},
    {"job", "metrics", "List the metrics of a job by step.", JOB,
     .options = OPTION(METRIC) | OPTION(SINCE), GET = "/v1/jobs/{0}/metrics",
     .layout = &layout_metrics},
    {"job", "checkpoints", "List the trained models of a job.", JOB, .options = OPTION(ORDER),
     GET = "/v1/jobs/{0}/checkpoints", .layout = &layout_checkpoints},
    {"job", "replicas", "Show what each failure would cost a job.", JOB,
     GET = "/v1/jobs/{0}/replicas", .layout = &layout_replicas},
    {"job", "groups", "Show the parts of a job of sub-models or of gossip.", JOB,
     GET = "/v1/jobs/{0}/groups", .run = groups_show},
    {"job", "mixes", "List what the groups of a job of gossip did, by match.", JOB,
     .options = OPTION(ORDER), GET = "/v1/jobs/{0}/mixes", .layout = &layout_mixes},
    {"job", "kernels", "Show the kernels of a job's convolutions as JSON.", JOB,
     GET = "/v1/jobs/{0}/kernels"},

    {"device", "list", "List the devices, the oldest first.",
     .options = OPTION(STATE) | OPTION(NAME) | OPTION(LABEL) | OPTION(ORDER), GET = "/v1/devices",
     .layout = &layout_devices},
    {"device", "get", "Show a device.", DEVICE, GET = "/v1/devices/{0}", .layout = &layout_device},
    {"device", "accept", "Let plans use a device that has joined and is pending.", DEVICE,
     POST = "/v1/devices/{0}/accept", .layout = &layout_device},
    {"device", "rename", "Give a device another name.",
     .argument = {{.kind = ARGUMENT_DEVICE, .name = "DEVICE"},
                  {.kind = ARGUMENT_NEW_NAME, .name = "NAME", .field = "name"}},
     .method = "PATCH", .path = "/v1/devices/{0}", .body = BODY_FIELDS, .layout = &layout_device},
    {"device", "rekey", "Make a token with which a machine that was set up anew becomes DEVICE.",
     .argument = {{.kind = ARGUMENT_DEVICE, .name = "DEVICE", .field = "device"}},
     .options = OPTION(EXPIRES), POST = "/v1/tokens", .body = BODY_FIELDS, .constant = "role=join",
     .layout = &layout_token},
    {"device", "cordon", "Keep a device out of further plans.", DEVICE,
     POST = "/v1/devices/{0}/cordon", .layout = &layout_device},
    {"device", "uncordon", "Allow a device in further plans again.", DEVICE,
     POST = "/v1/devices/{0}/uncordon", .layout = &layout_device},
    {"device", "drain", "Empty a device, to switch it off without a failure.", DEVICE,
     POST = "/v1/devices/{0}/drain", .layout = &layout_device},
    {"device", "undrain", "Use a drained device again.", DEVICE, POST = "/v1/devices/{0}/undrain",
     .layout = &layout_device},
    {"device", "remove", "Remove a device that is in no plan.", DEVICE, .method = "DELETE",
     .path = "/v1/devices/{0}"},
    {"device", "links", "List the measured links of a device.", DEVICE,
     GET = "/v1/devices/{0}/links", .layout = &layout_links},
    {"device", "measurements", "List the measured times of units on a device.", DEVICE,
     .options = OPTION(JOB), GET = "/v1/devices/{0}/measurements", .layout = &layout_measurements},

    {"dataset", "put", "Upload a data set: a file, or a directory as a tar.",
     .argument = {{.kind = ARGUMENT_NEW_NAME, .name = "NAME"},
                  {.kind = ARGUMENT_FILE, .name = "PATH"}},
     .options = OPTION(TEXT) | OPTION(SOUND) | OPTION(SIZE) | OPTION(CHANNELS), .method = "PUT",
     .path = "/v1/datasets/{0}", .body = BODY_FILE, .layout = &layout_dataset, .run = content_put},
    {"dataset", "list", "List the data sets.", .options = OPTION(NAME) | OPTION(ORDER),
     GET = "/v1/datasets", .layout = &layout_datasets},
    {"dataset", "get", "Show a data set, or download it.", WITH(ARGUMENT_DATASET, "DATASET"),
     .options = OPTION(OUTPUT), GET = "/v1/datasets/{0}", .layout = &layout_dataset,
     .run = content_get},
    {"dataset", "delete", "Delete a data set that no live job uses.",
     WITH(ARGUMENT_DATASET, "DATASET"), .method = "DELETE", .path = "/v1/datasets/{0}"},

    {"model", "put", "Add a model that a file describes.", WITH(ARGUMENT_FILE, "FILE.json"),
     POST = "/v1/models", .body = BODY_FIELDS, .layout = &layout_model_row},
    {"model", "list", "List the models, those of the zoo first.",
     .options = OPTION(NAME) | OPTION(ORDER), GET = "/v1/models", .layout = &layout_models},
    {"model", "get", "Show the units of a model.", WITH(ARGUMENT_MODEL, "MODEL"),
     .options = OPTION(DATASET), GET = "/v1/models/{0}", .layout = &layout_model_units},
    {"model", "delete", "Delete a model that was added and that no live job uses.",
     WITH(ARGUMENT_MODEL, "MODEL"), .method = "DELETE", .path = "/v1/models/{0}"},

    {"checkpoint", "put", "Upload a safetensors file for jobs to start from.",
     WITH(ARGUMENT_FILE, "FILE.safetensors"), POST = "/v1/checkpoints", .body = BODY_FILE,
     .layout = &layout_checkpoint, .run = content_put},
    {"checkpoint", "list", "List the trained models.", .options = OPTION(ORDER),
     GET = "/v1/checkpoints", .layout = &layout_checkpoints},
    {"checkpoint", "get", "Show a trained model, or download it.",
     WITH(ARGUMENT_CHECKPOINT, "CHECKPOINT"), .options = OPTION(OUTPUT),
     GET = "/v1/checkpoints/{0}", .layout = &layout_checkpoint, .run = content_get},
    {"checkpoint", "delete", "Delete a trained model from which no live job starts.",
     WITH(ARGUMENT_CHECKPOINT, "CHECKPOINT"), .method = "DELETE", .path = "/v1/checkpoints/{0}"},

    {"incident", "list", "List all failures, the oldest first.",
     .options = OPTION(STATE) | OPTION(ORDER), GET = "/v1/incidents", .layout = &layout_incidents},
    {"incident", "get", "Show a failure.", WITH(ARGUMENT_INCIDENT, "INCIDENT"),
     GET = "/v1/incidents/{0}", .layout = &layout_incident},
    {"incident", "delete", "Delete a failure that is over.", WITH(ARGUMENT_INCIDENT, "INCIDENT"),
     .method = "DELETE", .path = "/v1/incidents/{0}"},

    {"token", "create", "Make a token; its secret is shown this once.",
     .argument = {{.kind = ARGUMENT_NEW_NAME, .name = "NAME", .optional = true, .field = "name"}},
     .options = OPTION(ROLE) | OPTION(JOIN) | OPTION(USES) | OPTION(PENDING) | OPTION(EXPIRES) |
                OPTION(MAX_BYTES) | OPTION(MAX_JOBS),
     POST = "/v1/tokens", .body = BODY_FIELDS, .layout = &layout_token},
    {"token", "list", "List the tokens, without their secrets.", .options = OPTION(ORDER),
     GET = "/v1/tokens", .layout = &layout_tokens},
    {"token", "get", "Show a token, without its secret.", WITH(ARGUMENT_TOKEN_ROW, "TOKEN"),
     GET = "/v1/tokens/{0}", .layout = &layout_token},
    {"token", "revoke", "End a token.", WITH(ARGUMENT_TOKEN_ROW, "TOKEN"),
     POST = "/v1/tokens/{0}/revoke", .layout = &layout_token},
    {"audit", "", "List who changed what, the newest change first.", .options = OPTION(ORDER),
     GET = "/v1/audit", .layout = &layout_audit},

    {"plan", "", "Show the plan that a job would get with other devices or fields.",
     .argument = {{.kind = ARGUMENT_FILE, .name = "FILE.json", .optional = true}},
     .options = OPTION(JOB) | OPTION(DEVICES) | OPTION(WITHOUT) | OPTION(SET), POST = "/v1/plans",
     .body = BODY_FIELDS, .layout = &layout_forecast},
    {"events", "", "Print events as they happen.", .options = OPTION(AFTER) | OPTION(JOB),
     GET = "/v1/events", .run = events_follow},
    {"version", "", "Show the versions of this program and of the coordinator.", GET = "/version",
     .layout = &layout_version, .run = version_show},
    {"doctor", "", "Show what is wrong with an installation.", GET = "/version",
     .layout = &layout_findings, .run = doctor_run},
    {"login", "", "Store an address and a token (of standard input unless given) as a context.",
     .argument = {{.kind = ARGUMENT_URL, .name = "URL"},
                  {.kind = ARGUMENT_TOKEN, .name = "TOKEN", .optional = true}},
     .options = OPTION(CA) | OPTION(CA_SHA256), .run = account_login},
    {"context", "list", "List the contexts.", .layout = &layout_contexts, .run = account_list},
    {"context", "use", "Make a context the current one.", WITH(ARGUMENT_CONTEXT, "CONTEXT"),
     .run = account_use},
    {"context", "remove", "Forget a context.", WITH(ARGUMENT_CONTEXT, "CONTEXT"),
     .run = account_remove},
    {"completion", "", "Write a script that completes command lines: bash, zsh or fish.",
     WITH(ARGUMENT_SHELL, "SHELL"), .run = completion_write},
};
const size_t command_count = sizeof(commands) / sizeof(commands[0]);

bool option_given(const struct options *options, enum option option)
{
    return options->flag[option] || options->text[option][0] != '\0' ||
           (option == OPTION_SET && options->set.count > 0);
}

const struct command *command_find(const char *first, const char *second)
{
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &commands[i];
        if (strcmp(command->noun, first) == 0 &&
            (command->verb[0] == '\0' || (second && strcmp(command->verb, second) == 0))) {
            return command;
        }
    }
    return NULL;
}

size_t command_words(const struct command *command)
{
    return command->verb[0] == '\0' ? 1 : 2;
}

bool command_takes(const struct command *command, enum option option)
{
    return option < OPTIONS_OF_ALL || (command->options & OPTION_BIT(option));
}

size_t command_needs(const struct command *command)
{
    size_t count = 0;
    while (count < ARGUMENTS_MAX && command->argument[count].name &&
           !command->argument[count].optional) {
        count++;
    }
    return count;
}

size_t command_arguments(const struct command *command)
{
    size_t count = 0;
    while (count < ARGUMENTS_MAX && command->argument[count].name) {
        count++;
    }
    return count;
}
