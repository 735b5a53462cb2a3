/* outbox_queue.h: decides which snapshot of a stage is sent next, to whom, and when a failed target
 * is retried. It records which snapshots were taken for which rounds, which sends were
 * acknowledged, and which snapshots may be dropped when memory is short. Holds no bytes and moves
 * none. Pure, allocates in outbox_queue_new only; its owner guards it (outbox.c, the simulator).
 *
 * A request without a body, with the hash, first asks the target whether it already has a unit's
 * bytes. So frozen units and repeats cost no transfer, a full target refuses before the body is
 * sent, and a target that lost its copy reports it. Only then is the whole blob sent. The neighbor
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

/* Maximum number of snapshots of a stage: the committed one, the one under way, and one for each
 * end of a round. */
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

/* Note that a snapshot of all units was taken for the rounds of `mark` (none: at a stop). A second
 * call for the same version adds its rounds. Beyond OUTBOX_SETS_MAX the oldest snapshot is
 * dropped. */
void outbox_queue_take(struct outbox_queue *queue, int64_t version, const struct round_mark *mark);
/* Send the version to the center too: the job ends or pauses there. The center is asked about every
 * unit again, because it forgets the units of a round that the coordinator abandoned meanwhile. */
void outbox_queue_collect(struct outbox_queue *queue, int64_t version);
/* Note that the unit is hashed, held and ready to send. Unknown versions are ignored. */
void outbox_queue_hold(struct outbox_queue *queue, int64_t version, size_t unit,
                       const char sha256[SHA256_SIZE], int64_t bytes);
/* Drop the versions below `below_version`, as the coordinator ordered. */
void outbox_queue_drop(struct outbox_queue *queue, int64_t below_version);

/* ---- sending ---- */

struct outbox_send {
    enum replica_kind kind; /* the target */
    int64_t version;
    size_t unit;
    char sha256[SHA256_SIZE];
    int64_t bytes;
    bool whole;    /* false: ask whether it has these bytes */
    bool collects; /* the version was already collected when the send began */
};

/* Return the next send to a target that is not backing off; false: none now. One at a time. */
bool outbox_queue_next(const struct outbox_queue *queue, int64_t now_ms, struct outbox_send *out);
/* Note that the target has the bytes. */
void outbox_queue_sent(struct outbox_queue *queue, const struct outbox_send *send);
/* Note that the target does not have these bytes, so the blob must be sent. */
void outbox_queue_unknown(struct outbox_queue *queue, const struct outbox_send *send);
/* Note that the target is unreachable or full. It is retried after retry_ms or, if 0, after a wait
 * that grows with each failure in a row. */
void outbox_queue_failed(struct outbox_queue *queue, const struct outbox_send *send, int64_t now_ms,
                         int64_t retry_ms);
/* Abandon the round of this version for that target, because the target rejects it permanently. */
void outbox_queue_refused(struct outbox_queue *queue, const struct outbox_send *send);
/* Return when the next failed target is retried; INT64_MAX: never. */
int64_t outbox_queue_due_ms(const struct outbox_queue *queue);
/* Return whether the target has acknowledged all units of the version. */
bool outbox_queue_is_whole(const struct outbox_queue *queue, enum replica_kind kind,
                           int64_t version);
/* Return the newest version marked for a kind; 0: none. */
int64_t outbox_queue_newest(const struct outbox_queue *queue, enum replica_kind kind);

/* ---- room ---- */

/* Return whether a version of this generation may be dropped without an order when memory is short.
 * It may if the mark of a newer round does not list it among those to keep: then its round was
 * abandoned. */
bool outbox_queue_is_expendable(const struct outbox_queue *queue, int64_t version);

#endif
