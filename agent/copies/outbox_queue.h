/* replication.h: the bookkeeping of one stage's snapshots in one generation: which were taken for
 * which rounds, which unit of which goes where next, what was acknowledged, when a target that
 * failed is tried again, what may go when room is short. Holds no bytes and moves none. Pure,
 * allocates in replication_new only; guarded by its owner (agent/runtime/replicate, the simulator).
 *
 * A target is asked first whether it has a unit's bytes already (a request without a body that
 * names the hash): frozen units and repeats cost nothing, a full target refuses before the body is
 * on its way, and one that has lost what it had only says so. Then the whole blob is sent. The
 * neighbor comes before the center, low units before high ones. A newer round of a kind ends the
 * sends of the one before: stage 0 opens it only when the coordinator has closed that one. */
#ifndef AGENT_COPIES_OUTBOX_QUEUE_H
#define AGENT_COPIES_OUTBOX_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/pipeline.h"
#include "base/err.h"
#include "schema/heartbeat.h"
#include "schema/limits.h"

/* Snapshots of a stage at once: the committed one, the one on its way, one for each end of a round.
 */
#define REPLICATION_SETS_MAX 4

struct replication_config {
    size_t first, end; /* the stage's units */
    int64_t resume_version;
};

struct replication;
/* ERR_INVALID, ERR_MEMORY. */
NODISCARD int replication_new(const struct replication_config *config, struct replication **out,
                              struct err *err);
void replication_free(struct replication **replication);

/* ---- what is here ---- */

/* A snapshot of all units was taken for the rounds of `mark` (none: at a stop). The same version
 * again adds to it. The oldest makes room when there are more than REPLICATION_SETS_MAX. */
void replication_take(struct replication *replication, int64_t version,
                      const struct round_mark *mark);
/* The version is to be sent to the center, too: the job ends, or is paused there. */
void replication_collect(struct replication *replication, int64_t version);
/* That unit of it is hashed and held here: it can be sent. Nothing when the version is not known.
 */
void replication_hold(struct replication *replication, int64_t version, size_t unit,
                      const char sha256[SHA256_SIZE], int64_t bytes);
/* The coordinator ordered to drop what is older. */
void replication_drop(struct replication *replication, int64_t below_version);

/* ---- what is to be sent ---- */

struct replication_send {
    enum replica_kind kind; /* the target */
    int64_t version;
    size_t unit;
    char sha256[SHA256_SIZE];
    int64_t bytes;
    bool whole; /* false: ask whether it has these bytes */
};

/* The next one, for targets that are not to wait; false: nothing now. One at a time. */
bool replication_next(const struct replication *replication, int64_t now_ms,
                      struct replication_send *out);
/* The target has it. */
void replication_sent(struct replication *replication, const struct replication_send *send);
/* The target does not have these bytes: send the whole. */
void replication_unknown(struct replication *replication, const struct replication_send *send);
/* It could not be reached or has no room now: it is tried again after retry_ms, or (0) after a wait
 * that grows with each failure in a row. */
void replication_failed(struct replication *replication, const struct replication_send *send,
                        int64_t now_ms, int64_t retry_ms);
/* It is not taken, for good: the round of this version is given up towards that target. */
void replication_refused(struct replication *replication, const struct replication_send *send);
/* When a target that failed is due again and has something to get; INT64_MAX: never. */
int64_t replication_due_ms(const struct replication *replication);
/* All units of the version are acknowledged by the target. */
bool replication_is_whole(const struct replication *replication, enum replica_kind kind,
                          int64_t version);
/* The newest version marked for a kind; 0: none. */
int64_t replication_newest(const struct replication *replication, enum replica_kind kind);

/* ---- room ---- */

/* Whether one more replica fits. bound: replica_bytes of the assignment, twice the state of the
 * stage before this one in the ring; held: bytes of all replicas here; present: of these, those of
 * this generation. What an earlier plan left may exceed the bound until a round of this one is
 * committed; one set of this plan fits beside it. */
bool replication_has_room(int64_t bound, int64_t held, int64_t present, int64_t bytes);
/* Whether a version of this generation may go without an order when room is short: a newer round's
 * mark does not name it among those to keep, so its round was abandoned. */
bool replication_is_expendable(const struct replication *replication, int64_t version);

/* ---- what a device holds, of all its jobs ---- */

/* Whether the version of a holding is whole on this device: has as many units here as the newest
 * one before it. Every holding of the device is counted, in any order. */
struct replication_units {
    const struct holding *of;
    int64_t before; /* the newest version below, where here_before > 0 */
    size_t here, here_before;
};
void replication_units_count(struct replication_units *units, const struct holding *other);
static inline bool replication_units_are_whole(const struct replication_units *units)
{
    return units->here >= units->here_before;
}

#endif
