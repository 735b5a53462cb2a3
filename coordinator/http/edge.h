/* edge.h: the state of the HTTP edge between requests: long polls, event readers, uploads,
 * counters. The handlers use its fields; the rooms above call its functions. The loop's thread
 * only. */
#ifndef COORDINATOR_HTTP_EDGE_H
#define COORDINATOR_HTTP_EDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/event_stream.h"
#include "coordinator/http/parked.h"
#include "schema/id.h"

struct dataset_upload;
struct heartbeat;
struct shares;
struct tokens;

/* Stored answers for Idempotency-Key (replay.c). */
struct replays {
    int64_t day; /* of the last count; 0: not counted */
    size_t count;
};

/* Uploads from the first byte to the answer, with the queue of conversions (datasets.c). */
struct edge_uploads {
    size_t checkpoints, datasets;
    size_t converting;                                   /* data sets that a worker converts */
    struct dataset_upload *waiting_first, *waiting_last; /* for a worker */
};

/* The callers' rights, and counts of refused requests (access.c). */
struct edge_access {
    struct tokens *tokens;
    struct shares *shares;
    uint64_t unauthorized, forbidden, limited; /* refused requests */
    uint64_t logged;                           /* of them, at the last access_look */
    bool refusing;     /* some were refused between the last two calls of access_look */
    int64_t looked_ms; /* wall time of the last access_look */
};

/* Rows of changes (audit.c). */
struct edge_audit {
    struct rng_stream words;
    struct id_series ids;
    uint64_t since_trim;
    int64_t day; /* of the last row */
};

/* A number for each kind of object that rises when any object of the kind changes, also across
 * restarts: the revision of a list. */
struct edge_lists {
    int64_t base; /* microseconds since 1970 at the start: a list changes less than once a
                     microsecond */
    int64_t changes[OBJECT_NOTHING];
};

struct edge {
    struct edge_access access;
    struct edge_audit audit;
    struct parked *parked;
    struct event_stream *stream;
    struct edge_lists lists;
    struct heartbeat *heartbeat; /* the one being read, here because it is too large for the stack;
                                    empty between calls */
    struct edge_uploads uploads;
    struct replays replays;
    size_t metric_pages;                 /* being written (metrics.c) */
    uint64_t requests, errors;           /* answered; with 5xx */
    uint64_t bytes_received, bytes_sent; /* of blobs, data sets, models */
    uint64_t heartbeats_refused;         /* unreadable ones */
    size_t requests_open;
    uint64_t refusals; /* of requests and connections, at the last routes_look */
    bool refusing;     /* some were refused between the last two checks */
};

/* Set up coordinator->edge; the state store is open. */
NODISCARD int edge_open(struct coordinator *coordinator, uint64_t seed, struct err *err);
void edge_close(struct coordinator *coordinator);

/* After a commit, send public events to their readers and answer the long polls that have ended. */
void edge_publish(struct edge *edge);
/* Note the change of an object: wake the requests that wait for it and for its list. */
void edge_changed(struct edge *edge, enum object_kind kind, const char *id);
/* Return the revision of the list of all objects of the kind. */
int64_t edge_list_revision(const struct edge *edge, enum object_kind kind);
/* Return the number of public events since the start, without those that wait for the commit. */
uint64_t edge_events(const struct edge *edge);
/* Return the time at which edge_publish is due without a commit; INT64_MAX: never. */
int64_t edge_deadline_ms(const struct edge *edge);
/* Keep idle event streams alive. Returns the time of the next call; INT64_MAX: no readers. */
int64_t edge_ping(struct edge *edge, int64_t now_ms);
/* Answer all long polls and end the event streams, because the program stops. */
void edge_stop(struct edge *edge);

/* Check that the disk has room for the rows of a request. Rows of running jobs are not checked.
 * Answers disk_full and returns false if it has none. */
bool edge_takes_rows(const struct coordinator *coordinator, struct http_exchange *exchange);

#endif
