/* outbox_queue.h: decides which snapshot of a stage is sent next, to whom, and when a failed target
 * is retried. It records which snapshots were taken for which rounds and what was acknowledged, and
 * which may go when memory is short. Holds no bytes and moves none. Pure, allocates in
 * outbox_queue_new only; its owner guards it (outbox.c, the simulator).
 *
 * A target is first asked whether it has a unit's bytes already, by a request without a body that
 * names the hash. So frozen units and repeats cost nothing, a full target refuses before the body
 * is sent, and a target that lost its copy answers so. Then the whole blob is sent. The neighbor
 * comes before the center, low units before high ones. A newer round of a kind ends the sends of
 * the previous one: stage 0 opens a round only after the coordinator closed the one before. */
#ifndef AGENT_COPIES_OUTBOX_QUEUE_H
#define AGENT_COPIES_OUTBOX_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/rounds.h"
#include "base/err.h"
#include "schema/limits.h"

/* Snapshots of a stage at once: committed, on its way, and one for each end of a round. */
#define OUTBOX_SETS_MAX 4

struct outbox_queue_config {
    size_t first, end; /* the stage's units */
    int64_t resume_version;
};

struct outbox_queue;
/* ERR_INVALID, ERR_MEMORY. */
NODISCARD int outbox_queue_new(const struct outbox_queue_config *config, struct outbox_queue **out,
                               struct err *err);
void outbox_queue_free(struct outbox_queue **queue);

/* ---- snapshots of this stage ---- */

/* A snapshot of all units was taken for the rounds of `mark` (none: at a stop). The same version
 * again adds its rounds. Beyond OUTBOX_SETS_MAX the oldest snapshot is dropped. */
void outbox_queue_take(struct outbox_queue *queue, int64_t version, const struct round_mark *mark);
/* Send the version to the center too: the job ends or pauses there. */
void outbox_queue_collect(struct outbox_queue *queue, int64_t version);
/* The unit is hashed and held here, ready to send. Unknown versions are ignored. */
void outbox_queue_hold(struct outbox_queue *queue, int64_t version, size_t unit,
                       const char sha256[SHA256_SIZE], int64_t bytes);
/* The coordinator ordered to drop older versions. */
void outbox_queue_drop(struct outbox_queue *queue, int64_t below_version);

/* ---- sending ---- */

struct outbox_send {
    enum replica_kind kind; /* the target */
    int64_t version;
    size_t unit;
    char sha256[SHA256_SIZE];
    int64_t bytes;
    bool whole; /* false: ask whether it has these bytes */
};

/* The next send to a target that is not backing off; false: none now. One at a time. */
bool outbox_queue_next(const struct outbox_queue *queue, int64_t now_ms, struct outbox_send *out);
/* The target has it. */
void outbox_queue_sent(struct outbox_queue *queue, const struct outbox_send *send);
/* The target does not have these bytes: send the blob. */
void outbox_queue_unknown(struct outbox_queue *queue, const struct outbox_send *send);
/* The target is unreachable or full: retry after retry_ms or, if 0, after a wait that grows with
 * each failure in a row. */
void outbox_queue_failed(struct outbox_queue *queue, const struct outbox_send *send, int64_t now_ms,
                         int64_t retry_ms);
/* The target rejects it for good: abandon the round of this version towards that target. */
void outbox_queue_refused(struct outbox_queue *queue, const struct outbox_send *send);
/* When the next target that failed is retried; INT64_MAX: never. */
int64_t outbox_queue_due_ms(const struct outbox_queue *queue);
/* All units of the version are acknowledged by the target. */
bool outbox_queue_is_whole(const struct outbox_queue *queue, enum replica_kind kind,
                           int64_t version);
/* The newest version marked for a kind; 0: none. */
int64_t outbox_queue_newest(const struct outbox_queue *queue, enum replica_kind kind);

/* ---- room ---- */

/* Whether a version of this generation may be dropped without an order when memory is short: a
 * newer round's mark does not list it among those to keep, so its round was abandoned. */
bool outbox_queue_is_expendable(const struct outbox_queue *queue, int64_t version);

#endif
