/* replicate.h: a stage's snapshots on their way out of its memory. The compute thread copies its
 * units into a set of blocks that is ready for it (replicate_take: it neither allocates nor waits);
 * a background thread, "replicate", hashes them, keeps them (runtime/snapshot), and sends them
 * where the round wants them, one blob at a time, as core/replication says. It also makes the sets:
 * at most three of them, and one more for a stop.
 *
 * How a blob is sent is the carrier's (peer/carrier.h): this does not know the network. */
#ifndef AGENT_COPIES_OUTBOX_H
#define AGENT_COPIES_OUTBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/copies/outbox_queue.h"
#include "agent/copies/snapshot.h"
#include "agent/runtime/stage.h"
#include "base/err.h"

/* Send one blob, or ask for it (send->whole). Blocks. 0: the target has it; ERR_NOT_FOUND: it does
 * not have these bytes; ERR_STATE, ERR_NETWORK, ERR_TIMEOUT: later (*retry_ms: 0, or when);
 * ERR_STALE: this generation is over; ERR_CANCELLED; anything else: not this version. */
typedef int (*replicate_send_fn)(void *arg, const struct replication_send *send,
                                 const struct snapshot *snapshot, int64_t *retry_ms,
                                 struct err *err);

struct replicate_config {
    struct stage *stage; /* a reference is taken */
    struct snapshot_store *snapshots;
    int64_t replica_bytes; /* the most to hold for others: when they fill it, abandoned rounds of
                              theirs go first */
    replicate_send_fn send;
    atomic_bool *interrupt; /* what the carrier looks at while it sends: set to make it return
                               ERR_CANCELLED */
    void (*collected)(void *arg, int64_t version);    /* every unit of it is in the center */
    void (*failed)(void *arg, const struct err *why); /* the collection cannot succeed */
    void *arg;                                        /* of all of these */
};

struct replicate;
/* Make the first set and start the thread. ERR_MEMORY. */
NODISCARD int replicate_start(const struct replicate_config *config, struct replicate **out,
                              struct err *err);
/* Give up what is being sent. */
void replicate_cancel(struct replicate *replicate);
/* After replicate_cancel: waits for the thread's end. */
void replicate_free(struct replicate **replicate);

/* The compute thread, right after an update: a snapshot of `version` for the rounds of `mark`. It
 * is skipped when no set is ready. */
void replicate_take(struct replicate *replicate, int64_t version, const struct round_mark *mark);
/* The compute thread, at a stop: a snapshot of `version`, and wait until it is held. ERR_CANCELLED,
 * or why not. */
NODISCARD int replicate_keep(struct replicate *replicate, int64_t version, struct err *err);

/* Put the units of a version that is held into the center; `collected` or `failed` tell of its end.
 * Any thread. */
void replicate_collect(struct replicate *replicate, int64_t version);
/* A drop was ordered: blocks may be free. Any thread. */
void replicate_drop(struct replicate *replicate, const struct drop *drop);
/* Snapshots that found no set ready. */
uint64_t replicate_skipped(struct replicate *replicate);

#endif
