/* snapshot.h: the snapshots this device holds: blobs in memory by (job, version, unit), as the coordinator's `drop` and
 * the holdings of a heartbeat speak of them. Counted references, so that one that is being sent survives its drop.
 * Bounded by HOLDINGS_MAX. Any thread. */
#ifndef AGENT_RUNTIME_SNAPSHOT_H
#define AGENT_RUNTIME_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"
#include "schema/id.h"

struct snapshot {
    struct holding holding;
    void *data; /* holding.bytes */
};

struct snapshot_store;
NODISCARD int snapshot_store_new(struct snapshot_store **out, struct err *err);
/* Snapshots that are still referred to live on. */
void snapshot_store_free(struct snapshot_store **store);

/* Keep a blob, malloc'ed, whose hash this computes. `data` is taken, also on failure. The same (job, version, unit) is
 * replaced. ERR_LIMIT, ERR_MEMORY. */
NODISCARD int snapshot_keep(struct snapshot_store *store, const struct job_id *job, int64_t version, int64_t unit,
                            void *data, size_t size, struct err *err);
/* A reference, to be given back; NULL when it is not here. */
const struct snapshot *snapshot_get(struct snapshot_store *store, const char *job, int64_t version, int64_t unit);
void snapshot_put_back(const struct snapshot *snapshot);
void snapshot_drop(struct snapshot_store *store, const struct drop *drop);
/* Copy the whole list; returns their number. */
size_t snapshot_list(struct snapshot_store *store, struct holding out[HOLDINGS_MAX]);
/* Rises with each change. */
uint64_t snapshot_revision(struct snapshot_store *store);

#endif
