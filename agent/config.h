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
    char ca[CONFIG_PATH_MAX];   /* file of its authority; "": the system's */
    char listen_text[64];
    char advertise[URL_SIZE]; /* the same; "": where it listens */
    char state_directory[CONFIG_PATH_MAX];
    char replica_directory[CONFIG_PATH_MAX]; /* "": replicas are held in memory */
    char name[NAME_SIZE];
    struct conf_list label_list;
    struct conf_list data_list;            /* offered data sets, NAME=PATH[,PATH] */
    char data_reading[CONFIG_READING_MAX]; /* how to read them; "": by content */
    int64_t data_seconds;                  /* between two looks at them */
    int64_t threads;                       /* 0: as many as processors */
    double slowdown;
    int64_t leave_seconds;
    uint64_t memory_bytes; /* upper bound for training; 0: free memory */
    bool insecure;
    char metrics_token_file[CONFIG_PATH_MAX]; /* "": only this machine reads /metrics */
    char log_level_text[16];
    char log_format_text[16];

    /* found out from these */
    struct address listen;
    bool tls; /* the coordinator's address is https: agents call each other so too */
    enum log_level log_level;
    enum log_format log_format;
    char metrics_token[SECRET_SIZE];
    struct label label[LABELS_MAX];
    size_t label_count;
};

/* Read STATE_DIR/joined.conf, which `join` wrote, over it --config FILE and over that the command
 * line, and check all. *done: --help or --version was printed. */
NODISCARD int config_read(int argc, char **argv, struct config *out, bool *done, struct err *err);
/* The same for `paceline-agent join [OPTION...] URL [TOKEN]`, without joined.conf: URL becomes
 * out->coordinator. *token is borrowed from argv, NULL: not given. */
NODISCARD int config_read_join(int argc, char **argv, struct config *out, char **token, bool *done,
                               struct err *err);
/* Append what joined.conf must hold for an agent with this configuration. */
NODISCARD int config_write_joined(const struct config *config, struct buf *out, struct err *err);
/* The path of a file in the state directory. ERR_LIMIT: too long. */
NODISCARD int config_path(const struct config *config, const char *name, char out[CONFIG_PATH_MAX],
                          struct err *err);
#define CONFIG_JOINED "joined.conf"
void config_done(struct config *config);

#endif
