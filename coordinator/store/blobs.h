/* blobs.h: the center: content-addressed blobs in checkpoints.db (rows of 1 MiB, 64 KiB pages,
 * rollback journal, each byte written once). A blob exists only after its last row is committed;
 * the writer computes its sha256.
 *
 * Threads: one writer thread of its own commits the chunks of all uploads together (8 MiB or 100
 * ms). Any one thread may feed an upload, and never blocks: a full queue accepts fewer bytes.
 * Readers are for worker threads, because each call may read the disk. Only this room sees
 * sqlite3.h. */
#ifndef COORDINATOR_STORE_BLOBS_H
#define COORDINATOR_STORE_BLOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define BLOB_CHUNK_BYTES (1u << 20)
#define BLOB_SHA256_SIZE 65

struct blob_store;
struct blob_upload;
struct blob_reader;

struct blob_config {
    const char *directory;   /* DIR/checkpoints.db */
    uint64_t min_free_bytes; /* below it new blobs are rejected: ERR_FULL */
    size_t queue_bytes;      /* memory for the queued chunks of all uploads: 64 MiB */
};

/* Open, remove the half-written blobs of a crash, start the writer. */
NODISCARD int blob_open(const struct blob_config *config, struct blob_store **out, struct err *err);
/* Wait for finished uploads and drop open ones, whose feeding threads must have stopped. No reader
 * may be open. */
void blob_close(struct blob_store **store);

/* Begin an upload. expected_sha256 may be NULL; size_limit bounds it. Besides the queue each upload
 * holds at most one partial chunk, so a slow client costs 1 MiB and blocks no other. At most 256
 * uploads may be open or unwritten at once. ERR_FULL; ERR_LIMIT: too many uploads; ERR_INVALID: not
 * a sha256. */
NODISCARD int blob_upload_open(struct blob_store *store, const char *expected_sha256,
                               uint64_t size_limit, struct blob_upload **out, struct err *err);
/* Keep min_free_bytes free, for uploads of users: the announced size (0: unknown) must fit beside
 * it, and the upload never uses it. Uploads of running jobs may use half of min_free_bytes. Call it
 * before the first write. ERR_FULL: only blob_upload_abort may follow. */
NODISCARD int blob_upload_keep_free(struct blob_upload *upload, uint64_t announced_bytes,
                                    struct err *err);
/* Set fn, which the writer thread calls when a paused upload may continue, or has failed (the next
 * write returns the error). Call it before the first write. fn is never called after finish or
 * abort has returned. Both wait for a running call, so do not hold a lock that fn takes while
 * ending an upload. */
void blob_upload_on_room(struct blob_upload *upload, void (*fn)(void *arg), void *arg);
/* Take bytes. Returns how many were taken (fewer than size: the queue is full, wait for on_room),
 * or a negative ERR_ code: ERR_LIMIT over size_limit, ERR_FULL or ERR_IO if the writer abandoned
 * this upload. After an error only finish (done gets the same error) or abort may follow. */
int64_t blob_upload_write(struct blob_upload *upload, const void *data, size_t size,
                          struct err *err);
/* The same, waiting for room: for worker threads. */
NODISCARD int blob_upload_write_all(struct blob_upload *upload, const void *data, size_t size,
                                    struct err *err);
/* End the bytes (optional). sealed runs once, on the writer thread, with the sha256 of the content,
 * before the blob is published. After a failed upload the hash is that of a part of the content;
 * finish returns the error. Call finish or abort only after sealed has run. A store that is closed
 * after that drops the upload. sealed must not wait for the store. */
typedef void (*blob_sealed_fn)(void *arg, const char *sha256);
void blob_upload_seal(struct blob_upload *upload, blob_sealed_fn sealed, void *arg);
/* Finish and end the upload, after the last byte. done runs once, on the writer thread, when the
 * blob is durable (code 0) or was rejected (ERR_FORMAT: not the expected hash; ERR_FULL; ERR_IO).
 * err is never NULL. done must not wait for the store (write_all, drain, close). Existing content
 * is stored only once. */
typedef void (*blob_done_fn)(void *arg, int code, const char *sha256, uint64_t size,
                             const struct err *err);
void blob_upload_finish(struct blob_upload *upload, blob_done_fn done, void *arg);
/* Discard the upload with its rows. */
void blob_upload_abort(struct blob_upload *upload);
/* Ask whether a blob with this hash exists, in the order of the writer's queue: deletions queued
 * earlier are done before. done as above: code 0 with its size, or ERR_NOT_FOUND. Needs no space on
 * the disk. ERR_LIMIT: too many uploads; ERR_INVALID: not a sha256. */
NODISCARD int blob_confirm(struct blob_store *store, const char *sha256, blob_done_fn done,
                           void *arg, struct err *err);
/* Set *out if free space is below min_free_bytes, so that a new upload would be rejected. Reads the
 * state of the file system once. ERR_IO. */
NODISCARD int blob_disk_low(const struct blob_store *store, bool *out, struct err *err);

/* Open a blob for reading. ERR_NOT_FOUND. */
NODISCARD int blob_reader_open(struct blob_store *store, const char *sha256,
                               struct blob_reader **out, uint64_t *size, struct err *err);
void blob_reader_close(struct blob_reader **reader);
/* Read up to `size` bytes from offset; *out_size 0 at the end. ERR_FORMAT: the blob is damaged. A
 * row is missing or, after the whole blob was read in order, its content has another hash. The
 * error replaces the last bytes, so that no reader takes the blob as complete. The blob is then
 * marked as damaged. */
NODISCARD int blob_read(struct blob_reader *reader, uint64_t offset, void *out, size_t size,
                        size_t *out_size, struct err *err);
/* Read a whole blob to check it. ERR_FORMAT: it is damaged; ERR_CANCELLED: go_on returned false;
 * ERR_NOT_FOUND; ERR_IO. */
NODISCARD int blob_check(struct blob_store *store, const char *sha256, bool (*go_on)(void *arg),
                         void *arg, struct err *err);
/* Return whether the blob was found damaged since the store was opened. A damaged blob can still be
 * read, but an upload of the right content replaces it, and blob_confirm does not find it. Any
 * thread. */
bool blob_is_damaged(struct blob_store *store, const char *sha256);
/* The same, but true only once for each blob: the caller must report the damage. */
bool blob_tell_damage(struct blob_store *store, const char *sha256);
/* Find a damaged blob for which blob_tell_damage has not returned true yet; false: none. */
bool blob_untold_damage(struct blob_store *store, char out[BLOB_SHA256_SIZE]);
/* Delete a blob, on the writer thread. Open readers then get ERR_NOT_FOUND at the next chunk. */
void blob_delete(struct blob_store *store, const char *sha256);
/* Wait until the writer is idle: it has written chunks, deleted blobs and released space. For tests
 * and tools; not from a callback, and not while other threads keep writing. */
void blob_drain(struct blob_store *store);
/* Visit every blob and delete it if `keep` returns false. Only before listening, when no upload can
 * refer to a blob. */
NODISCARD int blob_sweep(struct blob_store *store,
                         bool (*keep)(void *arg, const char *sha256, uint64_t size), void *arg,
                         struct err *err);

struct blob_statistics {
    uint64_t blobs, bytes;  /* stored */
    uint64_t bytes_written; /* since open */
    uint64_t free_bytes;    /* of the file system */
};
void blob_statistics(struct blob_store *store, struct blob_statistics *out);

#endif
