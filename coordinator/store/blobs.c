#include "coordinator/store/blobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/log.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/owner.h"
#include "coordinator/store/path.h"

static int make_paths(struct blob_store *store, const char *directory, struct err *err)
{
    int rc = path_join(store->path, directory, "checkpoints.db", err);
    if (rc) {
        return rc;
    }
    (void)snprintf(store->directory, sizeof(store->directory), "%s", directory);
    return file_make_directory(directory, 0700, err);
}

/* Commits take precedence over new readers, so that a stream of readers cannot block the writer. */
static int make_commit_lock(struct blob_store *store, struct err *err)
{
    pthread_rwlockattr_t attributes;
    if (pthread_rwlockattr_init(&attributes) ||
        pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) ||
        pthread_rwlock_init(&store->commit_lock, &attributes)) {
        return err_set(err, ERR_MEMORY, "blob store: no lock");
    }
    (void)pthread_rwlockattr_destroy(&attributes);
    store->has_commit_lock = true;
    return 0;
}

static int start_writer(struct blob_store *store, struct err *err)
{
    int reason = pthread_create(&store->thread, NULL, blob_writer_run, store->writer);
    if (reason) {
        return err_set(err, ERR_MEMORY, "blob store: start the writer: %s", strerror(reason));
    }
    store->has_thread = true;
    return 0;
}

static int open_parts(struct blob_store *store, const struct blob_config *config,
                      const char *durability, struct err *err)
{
    int rc = make_paths(store, config->directory, err);
    rc = rc ? rc
            : owner_take(config->directory, "checkpoints.lock", "coordinator", &store->owner, err);
    rc = rc ? rc : make_commit_lock(store, err);
    rc = rc ? rc : blob_pool_init(&store->pool, err);
    store->has_pool = rc == 0;
    rc = rc ? rc : blob_queue_init(&store->queue, config->queue_bytes, err);
    store->has_queue = rc == 0;
    rc = rc ? rc : blob_writer_open(store, durability, &store->writer, &store->queue.next_id, err);
    return rc ? rc : start_writer(store, err);
}

int blob_open_with(const struct blob_config *config, const char *durability,
                   struct blob_store **out, struct err *err)
{
    if (config->queue_bytes < BLOB_CHUNK_BYTES) {
        return err_set(err, ERR_INVALID,
                       "blob store: queue_bytes is %zu, at least one chunk of %u is needed",
                       config->queue_bytes, BLOB_CHUNK_BYTES);
    }
    struct blob_store *store = calloc(1, sizeof(*store));
    if (!store) {
        return err_set(err, ERR_MEMORY, "blob store: out of memory");
    }
    store->owner = -1;
    store->min_free_bytes = config->min_free_bytes;
    int rc = open_parts(store, config, durability, err);
    if (rc) {
        blob_close(&store);
        return rc;
    }
    *out = store;
    return 0;
}

int blob_open(const struct blob_config *config, struct blob_store **out, struct err *err)
{
    return blob_open_with(config, BLOB_DURABILITY, out, err);
}

void blob_close(struct blob_store **place)
{
    struct blob_store *store = *place;
    if (!store) {
        return;
    }
    if (store->has_thread) {
        blob_queue_stop(&store->queue);
        int rc = pthread_join(store->thread, NULL);
        ASSERT(rc == 0);
    }
    if (store->has_pool) {
        blob_pool_done(&store->pool);
    }
    blob_writer_close(&store->writer);
    if (store->has_queue) {
        blob_queue_done(&store->queue);
    }
    if (store->has_commit_lock) {
        (void)pthread_rwlock_destroy(&store->commit_lock);
    }
    file_close(&store->owner);
    free(store);
    *place = NULL;
}

void blob_delete(struct blob_store *store, const char *sha256)
{
    if (!blob_queue_delete(&store->queue, sha256)) {
        /* The space is not lost: no row refers to the blob, and the sweep at the next start removes
         * it. */
        log_warn("blob_delete_postponed", "sha256=%.80s", sha256);
    }
}

void blob_drain(struct blob_store *store)
{
    blob_queue_drain(&store->queue);
}

void blob_statistics(struct blob_store *store, struct blob_statistics *out)
{
    *out = (struct blob_statistics){
        .blobs = atomic_load(&store->blobs),
        .bytes = atomic_load(&store->bytes),
        .bytes_written = atomic_load(&store->bytes_written),
    };
    struct err err = {0};
    if (file_free_bytes(store->directory, &out->free_bytes, &err)) {
        log_warn("free_space_unknown", "error=%s", log_quote(err.text).text);
    }
}
