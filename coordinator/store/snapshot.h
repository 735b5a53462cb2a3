/* snapshot.h: reads the state directory of one moment, from another process than the coordinator
 * that may run on it. The rows are those of one transaction. Their blobs stay readable until the
 * snapshot is closed, because the coordinator releases no blob meanwhile. Private to
 * coordinator/store. One thread. */
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
    int64_t id; /* of its chunks; 0: a row names a missing blob */
    uint64_t size;
};

/* Open a snapshot of the present state. ERR_NOT_FOUND: no state.db; ERR_STATE: another process
 * backs up this directory, or the databases are locked; ERR_UNSUPPORTED: made by a newer version;
 * ERR_FORMAT: not our databases, or damaged ones; ERR_IO, ERR_FULL. */
NODISCARD int snapshot_open(const char *directory, struct snapshot **out, struct err *err);
void snapshot_close(struct snapshot **snapshot);

/* Return the size and the schema number of state.db. */
uint64_t snapshot_state_bytes(const struct snapshot *snapshot);
int64_t snapshot_schema(const struct snapshot *snapshot);
/* Return all blobs in the order of their hashes, with missing ones that a row names. Borrowed. */
const struct snapshot_blob *snapshot_blobs(const struct snapshot *snapshot, size_t *count);

/* Check state.db. ERR_FORMAT names the first damage. */
NODISCARD int snapshot_check_state(struct snapshot *snapshot, struct err *err);
/* Copy state.db to a file, which is replaced. Not synchronised. */
NODISCARD int snapshot_copy_state(struct snapshot *snapshot, const char *path, struct err *err);
/* End the transaction on state.db, after the last read of it. While it is open, the coordinator's
 * write-ahead log grows. */
void snapshot_end_rows(struct snapshot *snapshot);
/* Pass the content of a blob in pieces to `take` (NULL: only compare), and compare it with its
 * hash. An error of `take` ends the reading. ERR_FORMAT: missing or damaged. */
typedef int (*snapshot_take_fn)(void *arg, const void *data, size_t size, struct err *err);
NODISCARD int snapshot_read(struct snapshot *snapshot, const struct snapshot_blob *blob,
                            snapshot_take_fn take, void *arg, struct err *err);

/* Return whether a process has a snapshot of the directory open: then no blob may be released. Any
 * thread, any process. */
bool snapshot_is_open(const char *directory);

#endif
