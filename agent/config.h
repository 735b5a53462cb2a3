/* config.h: the options of paceline-agent. */
#ifndef AGENT_CONFIG_H
#define AGENT_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/secret.h"
#include "net/address.h"
#include "schema/device.h"

#define CONFIG_PATH_MAX 4096
#define CONFIG_READING_MAX 512

struct config {
    char coordinator[URL_SIZE]; /* without a slash at its end */
    char ca[CONFIG_PATH_MAX];   /* CA file; "": the system's CAs */
    char listen_text[64];
    char advertise[URL_SIZE]; /* likewise; "": the listen address */
    char state_directory[CONFIG_PATH_MAX];
    char replica_directory[CONFIG_PATH_MAX]; /* "": replicas are held in memory */
    char name[NAME_SIZE];
    struct conf_list label_list;
    struct conf_list data_list;            /* offered data sets, NAME=PATH[,PATH] */
    char data_reading[CONFIG_READING_MAX]; /* how to read them; "": by content */
    int64_t data_seconds;                  /* between two checks of the offered data */
    int64_t threads;                       /* 0: one per processor */
    double slowdown;
    int64_t leave_seconds;
    uint64_t memory_bytes; /* upper bound for training; 0: free memory */
    bool insecure;
    char metrics_token_file[CONFIG_PATH_MAX]; /* "": only this machine reads /metrics */
    char log_level_text[16];
    char log_format_text[16];

    /* derived from the fields above */
    struct address listen;
    bool tls; /* the coordinator's address is https: agents call each other so too */
    enum log_level log_level;
    enum log_format log_format;
    char metrics_token[SECRET_SIZE];
    struct label label[LABELS_MAX];
    size_t label_count;
};

/* Read the configuration and check it. The sources, each overriding the ones before it:
 * STATE_DIR/joined.conf (written by `join`), --config FILE, the command line. *done: --help or
 * --version was printed. */
NODISCARD int config_read(int argc, char **argv, struct config *out, bool *done, struct err *err);
/* Read the configuration of `paceline-agent join [OPTION...] URL [TOKEN]`, without joined.conf. URL
 * becomes out->coordinator. *token is borrowed from argv; NULL: not given. */
NODISCARD int config_read_join(int argc, char **argv, struct config *out, char **token, bool *done,
                               struct err *err);
/* Append the content of joined.conf for an agent with this configuration. */
NODISCARD int config_write_joined(const struct config *config, struct buf *out, struct err *err);
/* Write the path of a file in the state directory. ERR_LIMIT: too long. */
NODISCARD int config_path(const struct config *config, const char *name, char out[CONFIG_PATH_MAX],
                          struct err *err);
#define CONFIG_JOINED "joined.conf"
void config_done(struct config *config);

#endif
