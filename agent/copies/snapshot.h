/* snapshot.h: the store of the snapshots that this device holds, its own and replicas of others, by
 * (job, version, unit). They are in memory or, if the store has a directory, in files that survive
 * a power cut: DIR/<job>/<version>-<unit>-<generation>-<sha256>.blob. References are counted, so a
 * snapshot that is being sent survives its drop. At most HOLDINGS_MAX; replicas leave room for one
 * set of own snapshots. Any thread; only the store's thread ("disk") writes and removes files.
 *
 * Blocks of memory belong to the store. It reuses released blocks for the next round, so
 * replication stops allocating after its first rounds; snapshot_trim returns the spare blocks. */
#ifndef AGENT_COPIES_SNAPSHOT_H
#define AGENT_COPIES_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/copies/snapshot_list.h"
#include "agent/runtime/disk_watch.h"
#include "base/err.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"
#include "schema/id.h"

struct snapshot_store;
/* directory: NULL: memory only. Otherwise its files are read and verified: damaged ones are
 * removed, the others are held again. ERR_EXISTS if another agent uses the directory. */
NODISCARD int snapshot_store_new(const char *directory, struct snapshot_store **out,
                                 struct err *err);
/* Free the store. All references must have been put back. Files stay. */
void snapshot_store_free(struct snapshot_store **store);

/* ---- memory ---- */

/* Return a block of `size` bytes for a blob; NULL: out of memory. */
void *snapshot_block(struct snapshot_store *store, size_t size);
void snapshot_block_free(struct snapshot_store *store, void *block, size_t size);
/* Begin to keep spare blocks (retain), or return them to the system and keep none from now on
 * (trim). */
void snapshot_retain(struct snapshot_store *store);
void snapshot_trim(struct snapshot_store *store);

/* ---- keeping ---- */

/* Called when a file is durable, on the store's thread. */
struct snapshot_waiter {
    void (*done)(void *arg, int rc, const struct err *why);
    void *arg;
};
#define SNAPSHOT_LATER 1

/* Keep a blob of holding->bytes, whose hash was verified to be holding->sha256. block: from
 * snapshot_block, taken, also on failure. It replaces a snapshot of the same (job, version, unit)
 * unless that one is of a later generation. Returns 0; SNAPSHOT_LATER: the waiter will be called;
 * ERR_STALE: the version was abandoned, or the store has it from a later generation; ERR_LIMIT. A
 * full disk is not a failure: the blob stays in memory. */
NODISCARD int snapshot_keep(struct snapshot_store *store, const struct holding *holding,
                            enum snapshot_origin origin, void *block,
                            const struct snapshot_waiter *waiter, struct err *err);
/* Keep a blob of the same job, unit and hash under another version. ERR_NOT_FOUND: the store has
 * none. */
NODISCARD int snapshot_keep_same(struct snapshot_store *store, const struct holding *holding,
                                 enum snapshot_origin origin, const struct snapshot_waiter *waiter,
                                 struct err *err);
/* Wait until every write is durable, the waiters of all writes were called, and dropped files are
 * removed. */
void snapshot_flush(struct snapshot_store *store);

/* Return a reference, to be put back; NULL when the store does not have the snapshot. */
const struct snapshot *snapshot_get(struct snapshot_store *store, const char *job, int64_t version,
                                    int64_t unit);
void snapshot_put_back(const struct snapshot *snapshot);
/* Copy bytes [offset, offset + size) of a snapshot in memory or in a file. ERR_IO, ERR_NOT_FOUND,
 * ERR_FORMAT: its file cannot be read, and the store no longer holds it. */
NODISCARD int snapshot_read(const struct snapshot *snapshot, uint64_t offset, void *out,
                            size_t size, struct err *err);
/* Drop a snapshot whose bytes do not match its hash. */
void snapshot_discard(struct snapshot_store *store, const struct snapshot *snapshot);

/* ---- dropping ---- */

void snapshot_drop(struct snapshot_store *store, const struct drop *drop);
/* Note that generation `generation` of the job starts from `version`. Newer versions are dropped
 * now; those of earlier generations are rejected when they arrive late. */
void snapshot_cut(struct snapshot_store *store, const struct job_id *job, int64_t generation,
                  int64_t version);
/* As snapshot_list_release. Returns the number of dropped snapshots. */
size_t snapshot_release(struct snapshot_store *store, enum snapshot_origin origin,
                        const struct job_id *job, int64_t generation,
                        const struct outbox_queue *queue);

/* ---- inspecting ---- */

/* Copy the whole list. Return the number of holdings. */
size_t snapshot_holdings(struct snapshot_store *store, struct holding out[HOLDINGS_MAX]);
/* Return a number that rises with each change. *whole (may be NULL): since the last call, a version
 * has reached as many units here as the version before it, so that no more of it is likely to come
 * soon. */
uint64_t snapshot_revision(struct snapshot_store *store, bool *whole);
/* Set an eventfd to write to at each change; -1: none. */
void snapshot_watch(struct snapshot_store *store, int fd);
/* Report every disk call to `disk`; borrowed. */
void snapshot_watch_disk(struct snapshot_store *store, struct disk_watch *disk);
/* Return the bytes of an origin (in_memory: without those in files), and the part of them that
 * belongs to this generation of the job. Dropped snapshots with references count. */
struct snapshot_bytes snapshot_count_bytes(struct snapshot_store *store,
                                           enum snapshot_origin origin, bool in_memory,
                                           const struct job_id *job, int64_t generation);
/* Return the bytes written to the directory since the start. */
int64_t snapshot_bytes_written(struct snapshot_store *store);

#endif
