/* blob_store.h: shared by the files that implement blobs.h. Private to coordinator/store. */
#ifndef COORDINATOR_STORE_BLOB_STORE_H
#define COORDINATOR_STORE_BLOB_STORE_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coordinator/store/blob_queue.h"
#include "coordinator/store/blobs.h"

struct sqlite3;
struct sqlite3_stmt;

#define BLOB_PAGE_BYTES 65536
/* The PRAGMAs by which a commit to checkpoints.db survives a power cut (docs/adr/0017). */
#define BLOB_DURABILITY "PRAGMA journal_mode = PERSIST; PRAGMA synchronous = FULL"
/* The chunks of a blob are the rows from id << 20 on: at most 1 TiB per blob. */
#define BLOB_INDEX_BITS 20
#define BLOB_SIZE_MAX ((uint64_t)BLOB_CHUNK_BYTES << BLOB_INDEX_BITS)

/* blob_open with other PRAGMAs, to measure their loss of data. */
NODISCARD int blob_open_with(const struct blob_config *config, const char *durability,
                             struct blob_store **out, struct err *err);

/* ---- blob_writer.c: the only writing connection; once its thread runs, no other uses it ---- */
struct blob_writer;
/* Open the database, migrate it and remove the half-written blobs of a crash. *next_id: the first
 * unused id. */
NODISCARD int blob_writer_open(struct blob_store *store, const char *durability,
                               struct blob_writer **out, int64_t *next_id, struct err *err);
void blob_writer_close(struct blob_writer **writer);
/* Run the writer's thread. Returns after the queue was stopped and is empty. arg: struct
 * blob_writer. */
void *blob_writer_run(void *arg);

/* ---- blob_reader.c: a few connections, each lent to one thread for one chunk ---- */
#define BLOB_READERS 4
#define BLOB_DAMAGED_MAX 256 /* that are remembered */
struct blob_pool {
    pthread_mutex_t lock;
    pthread_cond_t returned;
    struct blob_connection *connection[BLOB_READERS]; /* opened at first use */
    bool lent[BLOB_READERS];
    size_t open_readers;
    struct {
        char sha256[BLOB_SHA256_SIZE];
        bool reported;
    } damaged[BLOB_DAMAGED_MAX];
    size_t damaged_count;
};
NODISCARD int blob_pool_init(struct blob_pool *pool, struct err *err);
void blob_pool_done(struct blob_pool *pool);
/* Clear the damage mark of a blob that was replaced by undamaged content or deleted. */
void blob_mend(struct blob_store *store, const char *sha256);

struct blob_store {
    char directory[PATH_MAX];
    char path[PATH_MAX];
    uint64_t min_free_bytes;
    int owner; /* lock file */
    struct blob_queue queue;
    struct blob_pool pool;
    struct blob_writer *writer;
    pthread_t thread;
    bool has_queue, has_pool, has_thread, has_commit_lock;
    /* Readers hold it shared for one chunk, the writer exclusively for one commit, so that no
     * connection polls for a locked file. */
    pthread_rwlock_t commit_lock;
    _Atomic uint64_t blobs, bytes, bytes_written;
    _Atomic uint64_t reusable_bytes; /* free pages inside the file */
};

#endif
