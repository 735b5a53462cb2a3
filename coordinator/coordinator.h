/* coordinator.h: what the coordinator's edges share: the core and everything around it. Made by the
 * loop, given to every HTTP handler as its context; the loop's thread only. */
#ifndef COORDINATOR_COORDINATOR_H
#define COORDINATOR_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/content/catalog.h"
#include "coordinator/config.h"
#include "coordinator/core/core.h"
#include "coordinator/http/event_stream.h"
#include "coordinator/http/parked.h"
#include "coordinator/turn/incident_log.h"
#include "coordinator/store/blobs.h"
#include "coordinator/store/state.h"
#include "coordinator/turn/turn.h"
#include "coordinator/content/work.h"
#include "net/hash.h"
#include "net/http_server.h"

struct awaited;
struct dataset_upload;
struct heartbeat;

struct coordinator_statistics {
    uint64_t requests, errors;           /* answered; with 5xx */
    uint64_t bytes_received, bytes_sent; /* of blobs and data sets */
    double turn_seconds_max;
    uint64_t turns, events;
};

/* Answers that are kept for Idempotency-Key (http/replay.c). */
struct replays {
    int64_t day; /* of the last count; 0: none was made */
    size_t count;
};

struct coordinator {
    const struct coordinator_config *config;
    struct core *core;
    struct state_store *state;
    struct blob_store *blobs;
    struct http_server *server;
    struct work *work;
    struct catalog *catalog;
    struct parked *parked;
    struct event_stream *stream;
    struct turn *turn;
    struct awaited *awaited;     /* awaited.c */
    struct heartbeat *heartbeat; /* http/agent.c: the one that is read; too large for a stack, empty
                                    between two */
    size_t dataset_uploads;      /* http/datasets.c: between the first byte and the answer */
    size_t conversions;          /* the same: that a worker has */
    struct dataset_upload *conversion_first, *conversion_last; /* those that wait for one */
    size_t checkpoint_uploads; /* http/checkpoints.c: between the first byte and the answer */
    size_t metric_pages;       /* http/metrics.c: that are being written */
    struct coordinator_statistics statistics;
    struct replays replays;
    uint64_t refusals; /* of requests and connections, as routes_look saw them last */
    bool refusing;     /* there were some between the last two looks */
    struct incident_log incidents;
    uint8_t
        ticket_key[HASH_SIZE]; /* of HMACs; a row of state.db, so that tickets outlive a restart */
    int64_t started_ms;        /* wall time */
    size_t connections_max;    /* as configured, or what the descriptors allow */
    size_t requests_open;      /* begun and not finished */
    bool first_start;          /* state.db was made by this start */
    bool disk_low;             /* as the core was told last */
    bool stopping;             /* requests under way are finished, no others are taken */
};

#endif
