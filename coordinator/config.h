/* config.h: the coordinator's options: one table for the command line, the file and --help. */
#ifndef COORDINATOR_CONFIG_H
#define COORDINATOR_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/err.h"
#include "net/address.h"

#define CONNECTIONS_MIN 16

struct coordinator_config {
    char listen[64];
    char relay[64]; /* "": by default beside `listen`; "off": none */
    char state_dir[512];
    char tls_cert[512], tls_key[512]; /* files; "": the certificates of `init`, if any */
    char log_level[16], log_format[16];
    char webhook[512], webhook_secret[512]; /* URL, file of the secret; "": no webhook */
    bool insecure;
    struct conf_list allow_host;
    uint64_t min_free_bytes;
    uint64_t dataset_max_bytes;
    int64_t heartbeat_ms, lease_ms;
    int64_t history_hours, history_days;       /* of measurements: by the minute, by the hour */
    int64_t keep_days, keep_jobs, keep_points; /* kept of ended jobs; 0: all */
    int64_t connections_max;
    int64_t connections_per_address_max; /* of clients that are not enrolled agents */
    int64_t requests_per_second;         /* of a token, or of an address without one */
    struct address address;              /* parsed from listen */
    struct address relay_address;        /* from relay; length 0: off */
};

/* Read options; *done is set when --help or --version was answered. After success, config_done
 * releases them. */
NODISCARD int config_read(int argc, char **argv, struct coordinator_config *out, bool *done,
                          struct err *err);
void config_done(struct coordinator_config *config);

#endif
