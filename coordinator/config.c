#include "coordinator/config.h"

#include <stddef.h>
#include <string.h>

#include "base/conf.h"
#include "base/file.h"
#include "base/log.h"
#include "net/origin.h"
#include "schema/id.h"
#include "schema/limits.h"

#define TEXT(member, option, value, text)                                                          \
    {                                                                                              \
        .name = (option), .type = CONF_TEXT,                                                       \
        .offset = offsetof(struct coordinator_config, member),                                     \
        .size = sizeof(((struct coordinator_config *)0)->member), .value_name = (value),           \
        .help = (text)                                                                             \
    }
#define NUMBER(member, option, kind, low, high, value, text)                                       \
    {                                                                                              \
        .name = (option), .type = (kind), .offset = offsetof(struct coordinator_config, member),   \
        .min = (low), .max = (high), .value_name = (value), .help = (text)                         \
    }

static const struct conf_option options[] = {
    TEXT(listen, "listen", "HOST:PORT",
         "Address of the API; port 0: any free port. Default: 127.0.0.1:7410."),
    TEXT(relay, "relay", "HOST:PORT",
         "Relay connections between agents that cannot reach each other; off: do not.\n"
         "Default: the host of --listen, its port plus 2."),
    TEXT(state_dir, "state-dir", "DIR",
         "Jobs, data sets and checkpoints. Default: $XDG_STATE_HOME/paceline/coordinator."),
    {.name = "insecure",
     .type = CONF_FLAG,
     .offset = offsetof(struct coordinator_config, insecure),
     .help = "Listen beyond loopback without tokens and TLS. Default: off."},
    TEXT(tls_cert, "tls-cert", "FILE",
         "Serve TLS with this certificate (PEM, with those of its issuers).\n"
         "It and its key are read again each minute.\n"
         "Default: that of 'paceline-coordinator init', if it was run."),
    TEXT(tls_key, "tls-key", "FILE", "Key of --tls-cert (PEM). Default: none."),
    {.name = "allow-host",
     .type = CONF_LIST,
     .offset = offsetof(struct coordinator_config, allow_host),
     .value_name = "NAME",
     .help = "Accept this Host header too, for a reverse proxy.\n"
             "Repeatable. Default: only localhost, 127.x.y.z and [::1]."},
    NUMBER(min_free_bytes, "min-free", CONF_SIZE, 0, 0, "SIZE",
           "Reject uploads and new rows that leave less free disk. Default: 256M."),
    NUMBER(dataset_max_bytes, "max-dataset", CONF_SIZE, 0, 0, "SIZE",
           "Largest data set. Default: 8G."),
    NUMBER(heartbeat_ms, "heartbeat-ms", CONF_INT, 50, 60000, "MS",
           "Interval of heartbeats. Default: 1000."),
    NUMBER(lease_ms, "lease-ms", CONF_INT, 200, 600000, "MS",
           "Silence after which a device is lost. Default: 5000."),
    NUMBER(connections_max, "connections", CONF_INT, CONNECTIONS_MIN, 65536, "N",
           "Limit of open connections. Default: 8192."),
    NUMBER(connections_per_address_max, "connections-per-address", CONF_INT, 16, 65536, "N",
           "Limit of open connections per address, without enrolled agents. Default: 4096."),
    NUMBER(requests_per_second, "requests-per-second", CONF_INT, 1, 1000000, "N",
           "Limit of requests per token, once there are tokens. Default: 1000."),
    NUMBER(history_hours, "history-hours", CONF_INT, 1, 24 * 366, "HOURS",
           "Keep measurements by the minute so long. Default: 24."),
    NUMBER(history_days, "history-days", CONF_INT, 1, 3660, "DAYS",
           "Keep measurements by the hour so long. Default: 7."),
    NUMBER(keep_days, "keep-days", CONF_INT, 0, 36600, "DAYS",
           "Delete jobs, with their checkpoints, so long after their end. Default: 0, never."),
    NUMBER(keep_jobs, "keep-jobs", CONF_INT, 0, 1000000, "N",
           "Keep the newest N ended jobs, delete older ones likewise. Default: 0, all."),
    NUMBER(keep_points, "keep-points", CONF_INT, 0, 1000000, "N",
           "Keep N points of each metric of an ended job. Default: 0, all."),
    TEXT(webhook, "webhook", "URL",
         "POST ends of jobs, incidents and lost devices to this address, signed. Default: none."),
    TEXT(webhook_secret, "webhook-secret", "FILE",
         "Secret of the signatures of --webhook: one line, whsec_BASE64 or text. Default: none."),
    TEXT(log_level, "log-level", "LEVEL",
         "error, warn, info or debug; SIGUSR1 switches to debug, SIGUSR2 back. Default: info."),
    TEXT(log_format, "log-format", "FORMAT",
         "Lines of the log: text (logfmt) or json. Default: text."),
};

static const struct conf_program program = {
    .name = "paceline-coordinator",
    .summary =
        "Plan and supervise training across devices; serve the HTTP API and store the state.",
    .usage = "",
    .other_usage = "init | backup FILE | restore FILE | check [FILE]",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
};

#define RELAY_PORT_ABOVE 2 /* 7412 of 7410; agents have the one between */

static int set_relay(struct coordinator_config *config, struct err *err)
{
    const unsigned port = config->address.port;
    if (strcmp(config->relay, "off") == 0 ||
        (config->relay[0] == '\0' && port > UINT16_MAX - RELAY_PORT_ABOVE)) {
        return 0;
    }
    if (config->relay[0] == '\0') {
        address_set_port(&config->address, port > 0 ? (uint16_t)(port + RELAY_PORT_ABOVE) : 0,
                         &config->relay_address);
        return 0;
    }
    const int rc = address_parse(config->relay, &config->relay_address, err);
    return rc ? err_wrap(err, "--relay") : 0;
}

static int check_log(const struct coordinator_config *config, struct err *err)
{
    enum log_level level;
    enum log_format format;
    if (log_level_parse(config->log_level, &level, err)) {
        return err_wrap(err, "--log-level");
    }
    if (log_format_parse(config->log_format, &format, err)) {
        return err_wrap(err, "--log-format");
    }
    log_set_level(level);
    log_set_format(format);
    return 0;
}

static int check_webhook(const struct coordinator_config *config, struct err *err)
{
    if ((config->webhook[0] != '\0') != (config->webhook_secret[0] != '\0')) {
        return err_set(err, ERR_INVALID,
                       "--webhook and --webhook-secret belong together: %s is "
                       "missing",
                       config->webhook[0] ? "--webhook-secret" : "--webhook");
    }
    if (config->webhook[0] && !url_form.valid(config->webhook)) {
        return err_set(err, ERR_INVALID, "--webhook '%s': expected %s", config->webhook,
                       "an address such as https://example.org/paceline");
    }
    return 0;
}

static int check(struct coordinator_config *config, struct err *err)
{
    int rc = check_log(config, err);
    if (rc) {
        return rc;
    }
    if (config->lease_ms < LEASE_HEARTBEATS_MIN * config->heartbeat_ms) {
        return err_set(err, ERR_INVALID,
                       "--lease-ms %lld is less than %d heartbeats of %lld ms: use at least %lld, "
                       "or a smaller --heartbeat-ms",
                       (long long)config->lease_ms, LEASE_HEARTBEATS_MIN,
                       (long long)config->heartbeat_ms,
                       (long long)(LEASE_HEARTBEATS_MIN * config->heartbeat_ms));
    }
    if (config->keep_points == 1) {
        return err_set(err, ERR_INVALID,
                       "--keep-points 1: a curve has at least 2 points, or 0 for all of them");
    }
    if (config->dataset_max_bytes > DATASET_BYTES_MAX) {
        config->dataset_max_bytes = DATASET_BYTES_MAX;
    }
    for (size_t i = 0; i < config->allow_host.count; i++) {
        if (origin_check_name(config->allow_host.item[i], err)) {
            return err_wrap(err, "--allow-host");
        }
    }
    if ((config->tls_cert[0] != '\0') != (config->tls_key[0] != '\0')) {
        return err_set(err, ERR_INVALID, "--tls-cert and --tls-key belong together: %s is missing",
                       config->tls_cert[0] ? "--tls-key" : "--tls-cert");
    }
    rc = check_webhook(config, err);
    if (rc) {
        return rc;
    }
    if (!config->state_dir[0] && file_default_state_directory("coordinator", config->state_dir,
                                                              sizeof(config->state_dir), err)) {
        return err_wrap(err, "--state-dir");
    }
    rc = address_parse(config->listen, &config->address, err);
    if (rc) {
        return err_wrap(err, "--listen");
    }
    return set_relay(config, err);
}

int config_read(int argc, char **argv, struct coordinator_config *out, bool *done, struct err *err)
{
    struct coordinator_config config = {
        .listen = "127.0.0.1:7410",
        .log_level = "info",
        .log_format = "text",
        .min_free_bytes = 256u << 20,
        .dataset_max_bytes = 8ull << 30,
        .heartbeat_ms = 1000,
        .lease_ms = 5000,
        .connections_max = 8192,
        .history_hours = 24,
        .history_days = 7,
        .connections_per_address_max = 4096,
        .requests_per_second = 1000,
    };
    struct conf_list positional = {0};
    int rc = conf_parse(&program, argc, argv, &config, &positional, done, err);
    if (!rc && !*done) {
        rc = check(&config, err);
    }
    if (rc) {
        config_done(&config);
        return rc;
    }
    *out = config;
    return 0;
}

void config_done(struct coordinator_config *config)
{
    conf_list_done(&config->allow_host);
}
