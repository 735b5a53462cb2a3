/* outbox.h: a stage's snapshots on their way to the neighbour and the center.
 *
 * The compute thread copies its units into a set of blocks that is ready (outbox_take neither
 * allocates nor waits). The thread "replicate" does the tasks of outbox_tasks.h: it hashes them,
 * keeps them (snapshot.h), sends them one blob at a time, and prepares the next set.
 * outbox_upload.h sends a blob; this module does not know the network. */
#ifndef AGENT_COPIES_OUTBOX_H
#define AGENT_COPIES_OUTBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/copies/outbox_queue.h"
#include "agent/copies/snapshot.h"
#include "agent/runtime/keeper.h"
#include "base/err.h"

/* Send one blob (send->whole), or ask the target whether it has these bytes. Blocks. 0: the target
 * has it; ERR_NOT_FOUND: it does not have these bytes; ERR_STATE, ERR_NETWORK, ERR_TIMEOUT: retry
 * (*retry_ms: after that time, or 0); ERR_STALE: this generation is over; ERR_CANCELLED; any other
 * error: the target rejects this version. */
typedef int (*outbox_send_fn)(void *arg, const struct outbox_send *send,
                              const struct snapshot *snapshot, int64_t *retry_ms, struct err *err);

struct outbox_config {
    struct keeper *keeper; /* borrowed */
    struct snapshot_store *snapshots;
    int64_t replica_bytes; /* bound of replicas; if it is full, abandoned rounds are dropped */
    bool stops_only;       /* the generation has no rounds */
    outbox_send_fn send;
    atomic_bool *interrupt;                           /* if true, `send` returns ERR_CANCELLED */
    void (*collected)(void *arg, int64_t version);    /* the center has every unit of it */
    void (*failed)(void *arg, const struct err *why); /* the collection cannot succeed */
    void *arg;                                        /* of the three callbacks */
};

struct outbox;
/* Allocate the first set and start the thread. ERR_MEMORY. */
NODISCARD int outbox_start(const struct outbox_config *config, struct outbox **out,
                           struct err *err);
/* Abandon the send under way and all later ones. */
void outbox_cancel(struct outbox *outbox);
/* Wait for the thread's end and free the outbox, after outbox_cancel. */
void outbox_free(struct outbox **outbox);

/* Take a snapshot of `version` for the rounds of `mark`. The compute thread calls it right after an
 * update. The snapshot is skipped when no set is ready. */
void outbox_take(struct outbox *outbox, int64_t version, const struct round_mark *mark);
/* Take a snapshot of `version` and wait until it is held. The compute thread calls it at a stop.
 * ERR_CANCELLED, or the error that prevented it. */
NODISCARD int outbox_keep(struct outbox *outbox, int64_t version, struct err *err);

/* Send the units of a held version to the center; `collected` or `failed` is called at the end. Any
 * thread. */
void outbox_collect(struct outbox *outbox, int64_t version);
/* Note that a drop was ordered, so that blocks may be free. Any thread. */
void outbox_drop(struct outbox *outbox, const struct drop *drop);
/* Return the number of snapshots that were skipped because no set was ready. */
uint64_t outbox_skipped(struct outbox *outbox);

#endif
