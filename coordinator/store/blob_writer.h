/* blob_writer.h: the common parts of the writer's two halves: writing (blob_writer.c) and releasing
 * space (blob_reclaim.c). Private to coordinator/store. Only the writer's thread uses it. */
#ifndef COORDINATOR_STORE_BLOB_WRITER_H
#define COORDINATOR_STORE_BLOB_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/store/blob_store.h"

enum writer_statement {
    WRITER_ADD_ROW,
    WRITER_ADD_CHUNK,
    WRITER_FIND,
    WRITER_PUBLISH,
    WRITER_WITHDRAW,
    WRITER_NEXT_GARBAGE,
    WRITER_REMOVE_CHUNKS,
    WRITER_REMOVE_ROW,
    WRITER_FREE_PAGES,
    WRITER_PAGES,
    WRITER_STATEMENTS,
};

struct blob_writer {
    struct blob_store *store;
    struct sqlite3 *db;
    struct sqlite3_stmt *statement[WRITER_STATEMENTS];
    bool has_garbage; /* there may be rows without an owner, or too many free pages */
    bool is_held;     /* a process reads a snapshot: rows without an owner stay until it ends */
};

/* Commit if rc is 0, else roll back. Returns rc, or the error of the commit. */
NODISCARD int blob_writer_end(struct blob_writer *writer, int rc, struct err *err);

/* Remove all rows of an id whose blob does not exist (any more). */
NODISCARD int blob_reclaim_one(struct blob_writer *writer, int64_t id, struct err *err);
/* Remove all rows of all blobs without an owner, unless a process reads a snapshot. */
NODISCARD int blob_reclaim_all(struct blob_writer *writer, struct err *err);
/* Remove a bounded number of such rows; if none are left, release some free pages to the file
 * system. false: no work is left, or it failed and will be retried later. */
bool blob_reclaim_step(struct blob_writer *writer);
void blob_update_reusable(struct blob_writer *writer);

#endif
