#include "agent/config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/runtime/inventory.h"
#include "agent/runtime/offers.h"
#include "base/file.h"
#include "schema/class_ranges.h"
#include "schema/id.h"
#include "schema/token.h"

#define TEXT(member)                                                                               \
    .type = CONF_TEXT, .offset = offsetof(struct config, member),                                  \
    .size = sizeof(((struct config *)0)->member)

static const struct conf_option option_table[] = {
    {.name = "coordinator",
     TEXT(coordinator),
     .value_name = "URL",
     .help = "Address of the coordinator. Default: http://127.0.0.1:7410."},
    {.name = "ca",
     TEXT(ca),
     .value_name = "FILE",
     .help = "Trust a coordinator with https by this authority (PEM), whatever the clock says.\n"
             "Default: the system's authorities."},
    {.name = "listen",
     TEXT(listen_text),
     .value_name = "HOST:PORT",
     .help = "Address for other agents; port 0: any free port. Default: 127.0.0.1:7411."},
    {.name = "advertise",
     TEXT(advertise),
     .value_name = "URL",
     .help = "Address that other agents use for this device. Default: that of --listen, or of\n"
             "the calls to the coordinator if it listens at all addresses (0.0.0.0, [::])."},
    {.name = "state-dir",
     TEXT(state_directory),
     .value_name = "DIR",
     .help = "Identity, joined.conf and cached data sets.\n"
             "Default: $XDG_STATE_HOME/paceline/agent."},
    {.name = "replica-dir",
     TEXT(replica_directory),
     .value_name = "DIR",
     .help = "Store snapshots and replicas as files that survive restarts and power cuts. "
             "Default: in memory."},
    {.name = "name",
     TEXT(name),
     .value_name = "NAME",
     .help = "Name of this device. Default: its host name."},
    {.name = "label",
     .type = CONF_LIST,
     .offset = offsetof(struct config, label_list),
     .value_name = "KEY=VALUE",
     .help = "Property that jobs can require of a device. Repeatable. Default: none."},
    {.name = "data",
     .type = CONF_LIST,
     .offset = offsetof(struct config, data_list),
     .value_name = "NAME=PATH[,PATH]",
     .help =
         "Offer a data set that never leaves this device to jobs of strategy gossip: a file in\n"
         "any format of an upload, images and labels, or a directory. Repeatable. Default: "
         "none."},
    {.name = "data-as",
     TEXT(data_reading),
     .value_name = "NAME=VALUE[,...]",
     .help = "How to read the data sets of --data, as parameters of an upload, such as text=64.\n"
             "Default: recognised by content."},
    {.name = "data-seconds",
     .type = CONF_INT,
     .offset = offsetof(struct config, data_seconds),
     .min = 1,
     .max = 86400,
     .value_name = "N",
     .help =
         "Look at the data sets of --data every N seconds. What has changed is read when it was\n"
         "unchanged at two looks. Default: 60."},
    {.name = "threads",
     .type = CONF_INT,
     .offset = offsetof(struct config, threads),
     .min = 1,
     .max = 256,
     .value_name = "N",
     .help = "Compute threads; results do not depend on it. Default: one per processor."},
    {.name = "slowdown",
     .type = CONF_DOUBLE,
     .offset = offsetof(struct config, slowdown),
     .min = 1,
     .max = 1000,
     .value_name = "F",
     .help = "Compute F times slower, for demonstrations and tests. Default: 1."},
    {.name = "memory",
     .type = CONF_SIZE,
     .offset = offsetof(struct config, memory_bytes),
     .value_name = "SIZE",
     .help = "Upper bound of memory for training, such as 512M or 8G. Default: free memory."},
    {.name = "leave-seconds",
     .type = CONF_INT,
     .offset = offsetof(struct config, leave_seconds),
     .min = 0,
     .max = 3600,
     .value_name = "N",
     .help = "Upon SIGTERM, SIGINT or SIGHUP, wait this long for other devices to take the work; a "
             "second signal ends at once. Default: 30."},
    {.name = "insecure",
     .type = CONF_FLAG,
     .offset = offsetof(struct config, insecure),
     .help = "Listen beyond loopback without tokens and TLS. Default: off."},
    {.name = "metrics-token",
     TEXT(metrics_token_file),
     .value_name = "FILE",
     .help = "Token with which other machines may read GET /metrics. Default: only this machine."},
    {.name = "log-level",
     TEXT(log_level_text),
     .value_name = "LEVEL",
     .help = "error, warn, info or debug; SIGUSR1 switches to debug, SIGUSR2 back. Default: info."},
    {.name = "log-format",
     TEXT(log_format_text),
     .value_name = "FORMAT",
     .help = "Lines of the log: text (logfmt) or json. Default: text."},
};

static const struct conf_program program = {
    .name = "paceline-agent",
    .summary = "Train the stages that the coordinator assigns to this device. Before the first "
               "start, join lets\nit use a coordinator that has tokens.\n"
               "Without a coordinator: train runs a job in this process, replay repeats a job "
               "of strategy gossip,\n"
               "batches prints the samples of each step, predict applies a trained model to "
               "samples. Each has\nits own --help.",
    .usage = "",
    .other_usage =
        "join [OPTION...] URL [TOKEN] | train [OPTION...] JOB.json | replay "
        "[OPTION...] JOB.json | batches [OPTION...] JOB.json | predict [OPTION...] MODEL DATA",
    .options = option_table,
    .option_count = sizeof(option_table) / sizeof(option_table[0]),
};

static const struct conf_program join_program = {
    .name = "paceline-agent join",
    .summary = "Make this machine a device of the coordinator at URL, and write what the agent "
               "needs to start\nwithout options. TOKEN comes from 'paceline token create --join'; "
               "without it, it is\nthe first line of standard input. Options are those of the "
               "agent, and are kept.",
    .usage = "URL [TOKEN]",
    .options = option_table,
    .option_count = sizeof(option_table) / sizeof(option_table[0]),
    .positional_min = 1,
    .positional_max = 2,
};

/* "key=value", both names. */
static int read_labels(struct config *config, struct err *err)
{
    for (size_t i = 0; i < config->label_list.count; i++) {
        const char *text = config->label_list.item[i];
        const char *equals = strchr(text, '=');
        if (config->label_count == LABELS_MAX) {
            return err_set(err, ERR_LIMIT, "--label: at most %d", LABELS_MAX);
        }
        struct label *label = &config->label[config->label_count++];
        const size_t length = equals ? (size_t)(equals - text) : 0;
        if (!equals || length >= NAME_SIZE || strlen(equals + 1) >= NAME_SIZE) {
            return err_set(err, ERR_INVALID,
                           "--label '%s': expected KEY=VALUE, each up to %d characters", text,
                           NAME_SIZE - 1);
        }
        memcpy(label->key, text, length);
        label->key[length] = '\0';
        memcpy(label->value, equals + 1, strlen(equals + 1) + 1);
        if (!name_valid(label->key) || !name_valid(label->value)) {
            return err_set(err, ERR_INVALID,
                           "--label '%s': key and value may contain a-z 0-9 . _ -", text);
        }
        struct class_ranges classes;
        if (strcmp(label->key, CLASS_RANGES_LABEL) == 0 &&
            !class_ranges_read(label->value, &classes)) {
            return err_set(err, ERR_INVALID,
                           "--label '%s': expected classes as numbers up to %d and ranges, such "
                           "as " CLASS_RANGES_LABEL "=0-3_7",
                           text, COUNTED_CLASSES_MAX - 1);
        }
    }
    return 0;
}

/* The host name in the form of a name; "agent" if none of its characters is valid. */
static void default_name(char out[NAME_SIZE])
{
    char host[NAME_SIZE] = "";
    size_t length = 0;
    if (gethostname(host, sizeof(host) - 1) == 0) {
        for (const char *at = host; *at && length < NAME_SIZE - 1; at++) {
            const char c = (char)tolower((unsigned char)*at);
            if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                (length > 0 && strchr("._-", c))) {
                out[length++] = c;
            }
        }
    }
    out[length] = '\0';
    if (length == 0) {
        (void)snprintf(out, NAME_SIZE, "agent");
    }
}

/* Paths are appended: remove a slash at the end. */
static int check_url(const char *option, const struct text_form *form, const char *example,
                     char *url, struct err *err)
{
    const size_t length = strlen(url);
    if (length > 0 && url[length - 1] == '/') {
        url[length - 1] = '\0';
    }
    return form->valid(url) ? 0
                            : err_set(err, ERR_INVALID, "--%s '%s': expected an address such as %s",
                                      option, url, example);
}

/* With an https coordinator all connections of the agent have TLS. */
static int check_tls(struct config *config, struct err *err)
{
    static const char scheme[] = "https://";
    const size_t size = sizeof(scheme) - 1;
    config->tls = strncmp(config->coordinator, scheme, size) == 0;
    if (config->ca[0] != '\0' && !config->tls) {
        return err_set(err, ERR_INVALID, "--ca needs a --coordinator with https, not '%s'",
                       config->coordinator);
    }
    if (config->advertise[0] != '\0' &&
        (strncmp(config->advertise, scheme, size) == 0) != config->tls) {
        return err_set(err, ERR_INVALID,
                       "--advertise '%s': agents speak %s, as with their coordinator",
                       config->advertise, config->tls ? "https" : "http");
    }
    return 0;
}

static int check(struct config *config, struct err *err)
{
    int rc = check_url("coordinator", &url_form, "http://10.0.0.5:7410", config->coordinator, err);
    if (rc == 0 && config->advertise[0] != '\0') {
        rc = check_url("advertise", &origin_form, "http://10.0.0.5:7411", config->advertise, err);
    }
    rc = rc ? rc : check_tls(config, err);
    rc = rc ? rc : address_parse(config->listen_text, &config->listen, err);
    rc = rc ? rc
            : address_check(&config->listen, config->tls || config->insecure,
                            "name a --coordinator with https", err);
    rc = rc ? rc : log_level_parse(config->log_level_text, &config->log_level, err);
    rc = rc ? rc : log_format_parse(config->log_format_text, &config->log_format, err);
    if (rc == 0 && config->metrics_token_file[0] != '\0') {
        rc = secret_read(config->metrics_token_file, config->metrics_token, err);
        rc = rc ? err_wrap(err, "--metrics-token") : 0;
    }
    rc = rc ? rc : read_labels(config, err);
    rc = rc ? rc : offers_check(&config->data_list, config->data_reading, err);
    if (config->name[0] == '\0') {
        default_name(config->name);
    }
    if (rc == 0 && !name_valid(config->name)) {
        rc =
            err_set(err, ERR_INVALID, "--name '%s': expected %s", config->name, name_form.expected);
    }
    if (config->threads == 0) {
        config->threads = inventory_cores();
    }
    return rc;
}

static void set_defaults(struct config *out)
{
    memset(out, 0, sizeof(*out));
    (void)snprintf(out->coordinator, sizeof(out->coordinator), "http://127.0.0.1:7410");
    (void)snprintf(out->listen_text, sizeof(out->listen_text), "127.0.0.1:7411");
    (void)snprintf(out->log_level_text, sizeof(out->log_level_text), "info");
    (void)snprintf(out->log_format_text, sizeof(out->log_format_text), "text");
    out->slowdown = 1;
    out->leave_seconds = 30;
    out->data_seconds = 60;
}

static int find_state_directory(struct config *config, struct err *err)
{
    return config->state_directory[0] != '\0'
               ? 0
               : file_default_state_directory("agent", config->state_directory,
                                              sizeof(config->state_directory), err);
}

int config_path(const struct config *config, const char *name, char out[CONFIG_PATH_MAX],
                struct err *err)
{
    const int size = snprintf(out, CONFIG_PATH_MAX, "%s/%s", config->state_directory, name);
    return size > 0 && size < CONFIG_PATH_MAX
               ? 0
               : err_set(err, ERR_LIMIT, "--state-dir '%s' is too long", config->state_directory);
}

/* The command line is read twice, because it both locates joined.conf and overrides it. */
static int read_over_joined(int argc, char **argv, struct config *out, bool *done, struct err *err)
{
    struct conf_list positional = {0};
    char path[CONFIG_PATH_MAX], state_directory[CONFIG_PATH_MAX];
    int rc = find_state_directory(out, err);
    rc = rc ? rc : config_path(out, CONFIG_JOINED, path, err);
    if (rc != 0) {
        return rc;
    }
    memcpy(state_directory, out->state_directory, sizeof(state_directory));
    config_done(out);
    set_defaults(out);
    rc = conf_file(&program, path, out, err);
    rc = rc == ERR_NOT_FOUND ? 0 : rc;
    rc = rc ? rc : conf_parse(&program, argc, argv, out, &positional, done, err);
    conf_list_done(&positional);
    memcpy(out->state_directory, state_directory, sizeof(out->state_directory));
    return rc;
}

int config_read(int argc, char **argv, struct config *out, bool *done, struct err *err)
{
    struct conf_list positional = {0};
    set_defaults(out);
    *done = false;
    int rc = conf_parse(&program, argc, argv, out, &positional, done, err);
    conf_list_done(&positional);
    if (rc != 0 || *done) {
        return rc;
    }
    rc = read_over_joined(argc, argv, out, done, err);
    return rc ? rc : check(out, err);
}

int config_read_join(int argc, char **argv, struct config *out, char **token, bool *done,
                     struct err *err)
{
    struct conf_list positional = {0};
    set_defaults(out);
    out->coordinator[0] = '\0';
    *done = false;
    *token = NULL;
    int rc = conf_parse(&join_program, argc, argv, out, &positional, done, err);
    if (rc == 0 && !*done && out->coordinator[0] != '\0') {
        rc = err_set(err, ERR_INVALID, "--coordinator: URL names the coordinator to join");
    }
    if (rc == 0 && !*done && token_is_meant(positional.item[0])) {
        rc = err_set(err, ERR_INVALID, "URL comes before TOKEN");
    }
    if (rc == 0 && !*done && strlen(positional.item[0]) >= sizeof(out->coordinator)) {
        rc = err_set(err, ERR_LIMIT, "URL is longer than %d bytes", URL_SIZE - 1);
    }
    if (rc == 0 && !*done) {
        (void)snprintf(out->coordinator, sizeof(out->coordinator), "%s", positional.item[0]);
        /* Point to the word in argv itself, so that the caller can overwrite it. */
        for (int i = 1; positional.count > 1 && i < argc; i++) {
            *token = argv[i] == positional.item[1] ? argv[i] : *token;
        }
        rc = find_state_directory(out, err);
        rc = rc ? rc : check(out, err);
    }
    conf_list_done(&positional);
    return rc;
}

int config_write_joined(const struct config *config, struct buf *out, struct err *err)
{
    struct config usual;
    set_defaults(&usual);
    usual.threads = inventory_cores();
    memcpy(usual.state_directory, config->state_directory, sizeof(usual.state_directory));
    int rc = buf_printf(out, err,
                        "# Written by 'paceline-agent join', which overwrites it. Options of "
                        "--config FILE and of\n# the command line come before these.\n");
    return rc ? rc : conf_write(&program, config, &usual, out, err);
}

void config_done(struct config *config)
{
    conf_list_done(&config->label_list);
    conf_list_done(&config->data_list);
}
