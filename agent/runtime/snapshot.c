#include "agent/runtime/snapshot.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "net/hash.h"

struct kept {
    struct snapshot snapshot; /* first: what users hold */
    atomic_uint references;
};

struct snapshot_store {
    pthread_mutex_t lock;
    struct kept *kept[HOLDINGS_MAX];
    size_t count;
    uint64_t revision;
};

int snapshot_store_new(struct snapshot_store **out, struct err *err)
{
    struct snapshot_store *store = calloc(1, sizeof(*store));
    if (!store || pthread_mutex_init(&store->lock, NULL) != 0) {
        free(store);
        return err_set(err, ERR_MEMORY, "snapshots");
    }
    *out = store;
    return 0;
}

static void let_go(struct kept *kept)
{
    if (atomic_fetch_sub(&kept->references, 1) == 1) {
        free(kept->snapshot.data);
        free(kept);
    }
}

void snapshot_store_free(struct snapshot_store **store)
{
    if (*store) {
        for (size_t i = 0; i < (*store)->count; i++) {
            let_go((*store)->kept[i]);
        }
        (void)pthread_mutex_destroy(&(*store)->lock);
        free(*store);
        *store = NULL;
    }
}

/* Its index, or count. Under the lock. */
static size_t find(const struct snapshot_store *store, const char *job, int64_t version, int64_t unit)
{
    for (size_t i = 0; i < store->count; i++) {
        const struct holding *holding = &store->kept[i]->snapshot.holding;
        if (holding->unit == unit && holding->version == version && strcmp(holding->job.text, job) == 0) {
            return i;
        }
    }
    return store->count;
}

int snapshot_keep(struct snapshot_store *store, const struct job_id *job, int64_t version, int64_t unit, void *data,
                  size_t size, struct err *err)
{
    struct kept *kept = calloc(1, sizeof(*kept));
    if (!kept) {
        free(data);
        return err_set(err, ERR_MEMORY, "snapshot of unit %" PRId64, unit);
    }
    kept->snapshot = (struct snapshot){
        .holding = {.job = *job, .version = version, .unit = unit, .bytes = (int64_t)size}, .data = data};
    sha256_text(data, size, kept->snapshot.holding.sha256);
    atomic_init(&kept->references, 1);
    (void)pthread_mutex_lock(&store->lock);
    struct kept *old = NULL;
    const size_t index = find(store, job->text, version, unit);
    const bool fits = index < HOLDINGS_MAX;
    if (fits) {
        if (index == store->count) {
            store->count++;
        } else {
            old = store->kept[index];
        }
        store->kept[index] = kept;
        store->revision++;
    }
    (void)pthread_mutex_unlock(&store->lock);
    if (old) {
        let_go(old);
    }
    if (!fits) {
        let_go(kept);
        return err_set(err, ERR_LIMIT, "unit %" PRId64 ": %d snapshots are held already", unit, HOLDINGS_MAX);
    }
    return 0;
}

const struct snapshot *snapshot_get(struct snapshot_store *store, const char *job, int64_t version, int64_t unit)
{
    struct kept *kept = NULL;
    (void)pthread_mutex_lock(&store->lock);
    const size_t index = find(store, job, version, unit);
    if (index < store->count) {
        kept = store->kept[index];
        (void)atomic_fetch_add(&kept->references, 1);
    }
    (void)pthread_mutex_unlock(&store->lock);
    return kept ? &kept->snapshot : NULL;
}

void snapshot_put_back(const struct snapshot *snapshot)
{
    /* Users see it as constant; it is the first member of what this module owns. */
    let_go((struct kept *)(uintptr_t)snapshot);
}

void snapshot_drop(struct snapshot_store *store, const struct drop *drop)
{
    struct kept *dropped[HOLDINGS_MAX];
    size_t dropped_count = 0;
    (void)pthread_mutex_lock(&store->lock);
    size_t stay = 0;
    for (size_t i = 0; i < store->count; i++) {
        const struct holding *holding = &store->kept[i]->snapshot.holding;
        if (holding->version < drop->below_version && strcmp(holding->job.text, drop->job.text) == 0) {
            dropped[dropped_count++] = store->kept[i];
        } else {
            store->kept[stay++] = store->kept[i];
        }
    }
    store->count = stay;
    store->revision += dropped_count > 0;
    (void)pthread_mutex_unlock(&store->lock);
    for (size_t i = 0; i < dropped_count; i++) {
        let_go(dropped[i]);
    }
}

size_t snapshot_list(struct snapshot_store *store, struct holding out[HOLDINGS_MAX])
{
    (void)pthread_mutex_lock(&store->lock);
    const size_t count = store->count;
    for (size_t i = 0; i < count; i++) {
        out[i] = store->kept[i]->snapshot.holding;
    }
    (void)pthread_mutex_unlock(&store->lock);
    return count;
}

uint64_t snapshot_revision(struct snapshot_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    const uint64_t revision = store->revision;
    (void)pthread_mutex_unlock(&store->lock);
    return revision;
}
