#include "agent/config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/runtime/inventory.h"
#include "base/file.h"
#include "schema/id.h"

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
     .help = "Address that other agents use for this device. Default: that of --listen."},
    {.name = "state-dir",
     TEXT(state_directory),
     .value_name = "DIR",
     .help = "Identity and cached data sets. Default: $XDG_STATE_HOME/paceline/agent."},
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
    {.name = "log-level",
     TEXT(log_level_text),
     .value_name = "LEVEL",
     .help = "error, warn, info or debug. Default: info."},
};

static const struct conf_program program = {
    .name = "paceline-agent",
    .summary = "Train the stages that the coordinator assigns to this device.\n"
               "Without a coordinator: train runs a job in this process, batches prints the "
               "samples of each step,\n"
               "predict applies a trained model to samples. Each has its own --help.",
    .usage = "",
    .other_usage = "train [OPTION...] JOB.json | batches [OPTION...] JOB.json | predict "
                   "[OPTION...] MODEL DATA",
    .options = option_table,
    .option_count = sizeof(option_table) / sizeof(option_table[0]),
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
    rc = rc ? rc : read_labels(config, err);
    if (rc == 0 && config->state_directory[0] == '\0') {
        rc = file_default_state_directory("agent", config->state_directory,
                                          sizeof(config->state_directory), err);
    }
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

int config_read(int argc, char **argv, struct config *out, bool *done, struct err *err)
{
    memset(out, 0, sizeof(*out));
    (void)snprintf(out->coordinator, sizeof(out->coordinator), "http://127.0.0.1:7410");
    (void)snprintf(out->listen_text, sizeof(out->listen_text), "127.0.0.1:7411");
    (void)snprintf(out->log_level_text, sizeof(out->log_level_text), "info");
    out->slowdown = 1;
    out->leave_seconds = 30;
    struct conf_list positional = {0};
    *done = false;
    int rc = conf_parse(&program, argc, argv, out, &positional, done, err);
    conf_list_done(&positional);
    if (rc == 0 && !*done) {
        rc = check(out, err);
    }
    return rc;
}

void config_done(struct config *config)
{
    conf_list_done(&config->label_list);
}
