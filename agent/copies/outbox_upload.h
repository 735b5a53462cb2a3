/* outbox_upload.h: sends a stage's snapshots to its ring neighbour and to the center. Used by the
 * thread of outbox.h: one call at a time, over kept connections, in chunks that yield to the
 * training tensors. Network failures go to `troubles`; the caller decides about retries. */
#ifndef AGENT_COPIES_OUTBOX_UPLOAD_H
#define AGENT_COPIES_OUTBOX_UPLOAD_H

#include <stdatomic.h>

#include "agent/copies/outbox_queue.h"
#include "agent/copies/snapshot.h"
#include "agent/peer/trust.h"
#include "agent/runtime/keeper.h"
#include "agent/runtime/trouble.h"
#include "schema/assignment.h"

struct outbox_upload_config {
    struct keeper *keeper; /* borrowed */
    bool has_neighbor;
    struct peer neighbor;
    struct plan_id plan;
    struct ways *ways;         /* borrowed */
    int64_t peer_ms;           /* no answer in this time is a stall */
    const char *coordinator;   /* borrowed: its URL */
    const struct trust *trust; /* borrowed; NULL: no TLS */
    struct device_id device;   /* this one */
    char boot[ID_SIZE];
    struct troubles *troubles;    /* borrowed */
    struct links *links;          /* borrowed; gets the measured transfers to the neighbor */
    atomic_int_least64_t *sent;   /* borrowed; bytes of delivered blobs are added */
    const atomic_bool *interrupt; /* borrowed; true ends a call with ERR_CANCELLED */
};

struct outbox_upload;
NODISCARD int outbox_upload_new(const struct outbox_upload_config *config,
                                struct outbox_upload **out, struct err *err);
void outbox_upload_free(struct outbox_upload **upload);
/* As outbox_send_fn (outbox.h). */
NODISCARD int outbox_upload_send(struct outbox_upload *upload, const struct outbox_send *send,
                                 const struct snapshot *snapshot, int64_t *retry_ms,
                                 struct err *err);

#endif
