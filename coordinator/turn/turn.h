/* turn.h: one turn of the coordinator: events go into the core and its rows into one transaction.
 * Replies, wake-ups and public events leave only after the commit (persist before reply). Several
 * events of one pass of the loop share a commit. An answer that stores nothing, as for most
 * heartbeats, leaves at once. The loop's thread only. */
#ifndef COORDINATOR_TURN_TURN_H
#define COORDINATOR_TURN_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "coordinator/core/action.h"
#include "coordinator/core/event.h"
#include "net/http_server.h"
#include "schema/limits.h"

struct audit_entry;
struct core;
struct incident_log;
struct state_store;
struct turn;
struct turn_extra;

/* The answer to one request. */
struct turn_reply {
    enum problem_code problem; /* PROBLEM_NONE: body is the object */
    int status;
    int64_t revision;
    char text[MESSAGE_SIZE]; /* of the problem */
    struct buf body;
};

/* The effects of a turn. Content and HTTP stand above the turn, so it is handed their functions. A
 * negative code ends the program. */
struct turn_effects {
    void *context; /* the first argument of each */

    /* In the open transaction: store the answer for its Idempotency-Key; store a public event. */
    int (*remember)(void *context, const struct turn_extra *extra, const struct turn_reply *reply,
                    struct err *err);
    int (*store_event)(void *context, const struct action *action, struct err *err);
    /* There too: store that a request has changed an object (its id or name). status 0: the client
     * left before the answer, extra tells who it was. */
    int (*audit)(void *context, const struct http_exchange *exchange,
                 const struct turn_extra *extra, const char *subject, int status, struct err *err);
    /* Before the commit too, but nothing leaves: an object, its row or its list has changed, note
     * which long polls to check. */
    void (*wake)(void *context, enum object_kind kind, const char *id);
    /* Answer disk_full at once: a commit is held. */
    void (*refuse)(void *context, struct http_exchange *exchange);

    /* After the commit, in this order: answers, then work, then public events and long polls. */
    void (*answer)(void *context, struct http_exchange *exchange, struct turn_reply *reply);
    int (*export_model)(void *context, const char *job, int64_t version, struct err *err);
    int (*tune_kernels)(void *context, const char *job, struct err *err);
    int (*derive)(void *context, const char *job, struct err *err);
    int (*harvest)(void *context, const char *job, struct err *err);
    void (*plan)(void *context, uint64_t question);
    void (*delete_blob)(void *context, const char *sha256);
    void (*delete_checkpoint)(void *context, const char *sha256);
    void (*publish)(void *context);
};

/* core and state are borrowed for the turn's life, effects is copied. */
NODISCARD int turn_new(struct core *core, struct state_store *state,
                       const struct turn_effects *effects, struct turn **out, struct err *err);
void turn_free(struct turn **turn);

struct turn_statistics {
    double seconds_max; /* of one event */
    uint64_t commits, events;
};
const struct turn_statistics *turn_statistics(const struct turn *turn);
/* Counters of the incidents that the turns have opened and ended. Borrowed. */
const struct incident_log *turn_incidents(const struct turn *turn);

/* A canonical text that a row names by its hash. */
struct turn_description {
    const char *text;
    size_t size;
    char sha256[SHA256_SIZE];
};

#define REPLAY_KEY_SIZE (ID_SIZE + IDEMPOTENCY_KEY_SIZE)
/* Rows to store together with the event's effect. */
struct turn_extra {
    const char *description; /* text that the event's row names by its hash: the canonical one of a
                                model, or the class names of a data set; NULL: none */
    size_t description_size;
    char description_sha256[SHA256_SIZE];
    const struct turn_description *parts; /* [part_count] of a parent's jobs; NULL: none */
    size_t part_count;
    char replay_key[REPLAY_KEY_SIZE]; /* Idempotency-Key of its token; "": none */
    char request_sha256[SHA256_SIZE];
    char spent_token[ID_SIZE]; /* a token of which the change takes a use or a job; "": none */
    const struct audit_entry *origin; /* of a request whose client may leave before its effect;
                                         NULL: the exchange tells */
};

/* Feed one event (times are filled in) and collect its actions. exchange: the
 * request to answer, or NULL. The answer leaves at once if this event and those before it left
 * nothing to store, else after the commit. extra may be NULL. */
void turn_event(struct turn *turn, struct event *event, struct http_exchange *exchange,
                const struct turn_extra *extra);
/* Commit and let the effects out. ERR_ when the store failed: the caller logs and ends the program;
 * a restart is the normal start. 0 with turn_held: the disk is full and the reserve is used up.
 * Nothing is lost and no answer has left. The loop retries; until a retry succeeds, it rejects
 * requests and feeds no ticks. */
NODISCARD int turn_commit(struct turn *turn, struct err *err);
bool turn_held(const struct turn *turn);
/* Commit open changes, so that readers see only durable ones (except while held). false: the store
 * has failed; the next turn_commit returns the error. */
NODISCARD bool turn_settle(struct turn *turn);

#endif
