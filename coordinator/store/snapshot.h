/* snapshot.h: a state directory as it was at one moment, read by another process than the
 * coordinator that may be running on it. The rows are those of one transaction. The blobs that they
 * name stay readable until the snapshot is closed: the coordinator releases no blob meanwhile.
 * Private to coordinator/store. One thread. */
#ifndef COORDINATOR_STORE_SNAPSHOT_H
#define COORDINATOR_STORE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coordinator/store/blobs.h"

struct snapshot;

struct snapshot_blob {
    char sha256[BLOB_SHA256_SIZE];
    int64_t id; /* of its chunks; 0: a row names a blob that is not there */
    uint64_t size;
};

/* ERR_NOT_FOUND: no state.db; ERR_STATE: another process backs up this directory, or the databases
 * are locked; ERR_UNSUPPORTED: made by a newer version; ERR_FORMAT: not our databases, or damaged
 * ones; ERR_IO, ERR_FULL. */
NODISCARD int snapshot_open(const char *directory, struct snapshot **out, struct err *err);
void snapshot_close(struct snapshot **snapshot);

/* Of state.db. */
uint64_t snapshot_state_bytes(const struct snapshot *snapshot);
int64_t snapshot_schema(const struct snapshot *snapshot);
/* All blobs, also those that a row names and the store does not have, by hash. Borrowed. */
const struct snapshot_blob *snapshot_blobs(const struct snapshot *snapshot, size_t *count);

/* Look for damage in state.db. ERR_FORMAT names the first. */
NODISCARD int snapshot_check_state(struct snapshot *snapshot, struct err *err);
/* Copy state.db to a file, which is replaced. Not synchronised. */
NODISCARD int snapshot_copy_state(struct snapshot *snapshot, const char *path, struct err *err);
/* After the last look at state.db: while its transaction is open, the coordinator's log of it
 * grows. */
void snapshot_end_rows(struct snapshot *snapshot);
/* Pass the content of a blob in pieces to take, which returns 0 or an error that ends the reading
 * (NULL: only compare), and compare it with its hash. ERR_FORMAT: missing or damaged. */
typedef int (*snapshot_take_fn)(void *arg, const void *data, size_t size, struct err *err);
NODISCARD int snapshot_read(struct snapshot *snapshot, const struct snapshot_blob *blob,
                            snapshot_take_fn take, void *arg, struct err *err);

/* Whether a process has a snapshot of the directory open: then no blob may be released. Any thread,
 * any process. */
bool snapshot_is_open(const char *directory);

#endif
