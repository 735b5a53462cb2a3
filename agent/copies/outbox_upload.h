/* carrier.h: carries a stage's snapshots to its ring neighbour and to the center, for the thread of
 * runtime/replicate alone: one call at a time, over kept connections, behind the training tensors.
 * What the network does is told to `troubles`; whether and when a call is repeated is the caller's.
 */
#ifndef AGENT_COPIES_OUTBOX_UPLOAD_H
#define AGENT_COPIES_OUTBOX_UPLOAD_H

#include <stdatomic.h>

#include "agent/copies/outbox_queue.h"
#include "agent/copies/snapshot.h"
#include "agent/runtime/stage.h"
#include "agent/runtime/trouble.h"
#include "schema/assignment.h"

struct carrier_config {
    struct stage *stage; /* a reference is taken */
    bool has_neighbor;
    struct peer neighbor;
    int64_t peer_ms;         /* no answer for so long is a stall */
    const char *coordinator; /* borrowed: its URL */
    struct device_id device; /* this one */
    char boot[ID_SIZE];
    struct troubles *troubles;    /* borrowed */
    atomic_int_least64_t *sent;   /* borrowed: bytes of blobs that were delivered are added */
    const atomic_bool *interrupt; /* borrowed: ends a call: ERR_CANCELLED */
};

struct carrier;
NODISCARD int carrier_new(const struct carrier_config *config, struct carrier **out,
                          struct err *err);
void carrier_free(struct carrier **carrier);
/* As replicate_send_fn (runtime/replicate.h). */
NODISCARD int carrier_send(struct carrier *carrier, const struct replication_send *send,
                           const struct snapshot *snapshot, int64_t *retry_ms, struct err *err);

#endif
