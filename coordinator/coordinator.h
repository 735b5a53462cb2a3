/* coordinator.h: the parts that the content and HTTP edges share: the core, the stores, the turn,
 * and pointers to the private state of each edge. The loop opens it, and every HTTP handler gets it
 * as its context. The loop's thread only. */
#ifndef COORDINATOR_COORDINATOR_H
#define COORDINATOR_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/config.h"
#include "coordinator/core/core.h"
#include "coordinator/store/blobs.h"
#include "coordinator/store/state.h"
#include "coordinator/turn/turn.h"
#include "net/hash.h"
#include "net/http_server.h"

struct awaited;
struct catalog;
struct certificates;
struct edge;
struct planner;
struct relay;
struct webhook;
struct work;

struct coordinator {
    const struct coordinator_config *config;
    struct core *core;
    struct state_store *state;
    struct blob_store *blobs;
    struct turn *turn;
    struct work *work;                 /* content/work.h */
    struct catalog *catalog;           /* content/catalog.h */
    struct awaited *awaited;           /* content/awaited.h */
    struct planner *planner;           /* content/planner.h */
    struct webhook *webhook;           /* content/webhook.h; NULL without --webhook */
    struct edge *edge;                 /* http/edge.h */
    struct certificates *certificates; /* the program's certificates.h */
    struct http_server *server;
    struct relay *relay;   /* NULL: none */
    struct tls_server tls; /* the certificate in use at the start; certificate NULL: no TLS */
    const char *authority; /* PEM, verifies the server; NULL: no authority of its own */
    char authority_sha256[HASH_TEXT_SIZE]; /* "": none */
    uint8_t
        ticket_key[HASH_SIZE]; /* of HMACs; a row of state.db, so that tickets outlive a restart */
    int64_t started_ms;        /* by clock_now_ms, because the wall clock may be set */
    size_t connections_max;    /* as configured, or as many as the open-file limit allows */
    bool disk_low;             /* as last reported to the core */
    bool stopping;             /* open requests finish; new ones are rejected */
};

#endif
