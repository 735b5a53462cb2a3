/* snapshot.h: the snapshots this device holds, its own and replicas of others: blobs by (job,
 * version, unit), as the coordinator's `drop` and the holdings of a heartbeat speak of them. In
 * memory, or, when the store has a directory, in files that survive a power cut:
 * DIR/<job>/<version>-<unit>-<generation>-<sha256>.blob. Counted references, so that one that is
 * being sent survives its drop. Bounded by HOLDINGS_MAX, of which replicas leave room for one set
 * of own ones. Any thread; nothing but its own thread ("disk") writes and removes files.
 *
 * The memory of blobs comes from the store: blocks that are let go of are used again for the next
 * round, so that replication allocates nothing once it is under way; snapshot_trim gives the spare
 * ones back. */
#ifndef AGENT_COPIES_SNAPSHOT_H
#define AGENT_COPIES_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/runtime/disk_watch.h"
#include "base/err.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"
#include "schema/id.h"

struct snapshot {
    struct holding holding;
    const void *data; /* holding.bytes; NULL: on disk, read it with snapshot_read */
};

struct snapshot_store;
/* directory: NULL: memory only. Else the files in it are verified: damaged ones are removed, the
 * others are held again. ERR_EXISTS when another agent uses it. Takes as long as reading them does.
 */
NODISCARD int snapshot_store_new(const char *directory, struct snapshot_store **out,
                                 struct err *err);
/* All references must have been given back. Files stay. */
void snapshot_store_free(struct snapshot_store **store);

/* ---- memory ---- */

/* A block of so many bytes for a blob; NULL: out of memory. */
void *snapshot_block(struct snapshot_store *store, size_t size);
void snapshot_block_free(struct snapshot_store *store, void *block, size_t size);
/* Give spare blocks back to the system, and keep none from now on (retain: keep them again). */
void snapshot_retain(struct snapshot_store *store);
void snapshot_trim(struct snapshot_store *store);

/* ---- keeping ---- */

enum snapshot_origin { SNAPSHOT_OWN, SNAPSHOT_REPLICA };

/* Told when a file is durable, on the store's thread. */
struct snapshot_waiter {
    void (*done)(void *arg, int rc, const struct err *why);
    void *arg;
};
#define SNAPSHOT_LATER 1

/* Keep a blob of holding->bytes, whose hash is known to be holding->sha256. block: from
 * snapshot_block, taken, also on failure. The same (job, version, unit) is replaced unless it is of
 * a later generation. Returns 0; SNAPSHOT_LATER: the waiter will be told; ERR_STALE (the version
 * was cut off, or is here of a later generation), ERR_LIMIT. A full disk is no failure: the blob
 * stays in memory. */
NODISCARD int snapshot_keep(struct snapshot_store *store, const struct holding *holding,
                            enum snapshot_origin origin, void *block,
                            const struct snapshot_waiter *waiter, struct err *err);
/* Keep what is here already under another version: a blob of the same job, unit and hash.
 * ERR_NOT_FOUND: there is none.
 */
NODISCARD int snapshot_keep_same(struct snapshot_store *store, const struct holding *holding,
                                 enum snapshot_origin origin, const struct snapshot_waiter *waiter,
                                 struct err *err);
/* Wait until all that was begun is durable and told, and what was let go of is removed. */
void snapshot_flush(struct snapshot_store *store);

/* A reference, to be given back; NULL when it is not here. */
const struct snapshot *snapshot_get(struct snapshot_store *store, const char *job, int64_t version,
                                    int64_t unit);
void snapshot_put_back(const struct snapshot *snapshot);
/* Copy bytes [offset, offset + size) of it, wherever it is. ERR_IO, ERR_NOT_FOUND, ERR_FORMAT: its
 * file cannot be read; it is held no longer. */
NODISCARD int snapshot_read(const struct snapshot *snapshot, uint64_t offset, void *out,
                            size_t size, struct err *err);
/* It is not what it says: hold it no longer. */
void snapshot_discard(struct snapshot_store *store, const struct snapshot *snapshot);

/* ---- letting go ---- */

void snapshot_drop(struct snapshot_store *store, const struct drop *drop);
/* Generation `generation` of the job starts from `version`: what is newer is cut off now, and of
 * earlier generations also when it comes late. */
void snapshot_cut(struct snapshot_store *store, const struct job_id *job, int64_t generation,
                  int64_t version);
/* Let go of those of an origin and of that generation of the job whose version `goes` names (called
 * under a lock). Returns how many. */
size_t snapshot_release(struct snapshot_store *store, enum snapshot_origin origin,
                        const struct job_id *job, int64_t generation,
                        bool (*goes)(const void *arg, int64_t version), const void *arg);

/* ---- looking ---- */

/* Copy the whole list; returns their number. */
size_t snapshot_list(struct snapshot_store *store, struct holding out[HOLDINGS_MAX]);
/* Rises with each change. *whole (may be NULL): since it was asked for last, a version came to have
 * as many units here as the one before it: no more of it is likely to come soon. */
uint64_t snapshot_revision(struct snapshot_store *store, bool *whole);
/* An eventfd that is written to at each change; -1: none. */
void snapshot_watch(struct snapshot_store *store, int fd);
/* Told of every call to the disk; borrowed. */
void snapshot_watch_disk(struct snapshot_store *store, struct disk_watch *disk);
/* Bytes of an origin that are here (in_memory: but for those in files), and of those among them
 * that are of this generation of the job. What is dropped and still referred to counts. */
struct snapshot_bytes {
    int64_t held, present;
};
struct snapshot_bytes snapshot_count_bytes(struct snapshot_store *store,
                                           enum snapshot_origin origin, bool in_memory,
                                           const struct job_id *job, int64_t generation);
/* To the directory, since the start. */
int64_t snapshot_bytes_written(struct snapshot_store *store);

#endif
