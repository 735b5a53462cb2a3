#include "agent/copies/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "agent/copies/snapshot_parts.h"
#include "base/assert.h"
#include "base/log.h"

/* ---- places ---- */

struct kept *snapshot_place(struct snapshot_store *store, const struct holding *holding,
                            enum snapshot_origin origin)
{
    struct kept *kept = store->unused;
    if (kept) {
        store->unused = kept->next;
    } else if (store->places_used < SNAPSHOT_PLACES) {
        kept = &store->place[store->places_used++];
    } else {
        return NULL;
    }
    memset(kept, 0, sizeof(*kept));
    kept->snapshot.holding = *holding;
    kept->store = store;
    kept->snapshot.origin = origin;
    atomic_store(&kept->references, 1);
    return kept;
}

void snapshot_free_place(struct snapshot_store *store, struct kept *kept)
{
    (void)pthread_mutex_lock(&store->lock);
    kept->next = store->unused;
    store->unused = kept;
    (void)pthread_mutex_unlock(&store->lock);
}

void snapshot_unref(struct kept *kept)
{
    while (kept && atomic_fetch_sub(&kept->references, 1) == 1) {
        struct snapshot_store *store = kept->store;
        struct kept *referred = kept->base ? kept->base : kept->same;
        snapshot_block_free(store, kept->block, (size_t)kept->snapshot.holding.bytes);
        if (kept->in_file && kept->dropped) {
            snapshot_disk_remove(store, kept);
        } else {
            snapshot_free_place(store, kept);
        }
        kept = referred;
    }
}

/* Under the lock. */
static void changed(struct snapshot_store *store)
{
    if (store->watch_fd >= 0) {
        (void)eventfd_write(store->watch_fd,
                            1); /* fails only if the counter is full; then it is readable */
    }
}

static bool is_same_file(const struct holding *a, const struct holding *b)
{
    return a->generation == b->generation && strcmp(a->sha256, b->sha256) == 0;
}

/* Users get a const pointer to the first member of the struct that this module owns. */
static struct kept *kept_of(const struct snapshot *snapshot)
{
    return (struct kept *)(uintptr_t)snapshot;
}

bool snapshot_has_file(const struct snapshot_store *store, const struct holding *holding)
{
    const struct snapshot *held =
        snapshot_list_find(&store->list, holding->job.text, holding->version, holding->unit);
    return held && kept_of(held)->in_file && is_same_file(&held->holding, holding);
}

int snapshot_insert(struct snapshot_store *store, struct kept *kept, struct kept **old,
                    struct err *err)
{
    struct snapshot *replaced = NULL;
    int rc = snapshot_list_insert(&store->list, &kept->snapshot, &replaced, err);
    if (rc != 0) {
        return rc;
    }
    *old = replaced ? kept_of(replaced) : NULL;
    if (*old) { /* the file of the same name stays */
        (*old)->dropped = !is_same_file(&replaced->holding, &kept->snapshot.holding);
    }
    changed(store);
    return 0;
}

/* ---- keeping ---- */

/* Insert it, or hand it to the disk's thread. On failure releases the lock and the snapshot. */
static int enter(struct snapshot_store *store, struct kept *kept,
                 const struct snapshot_waiter *waiter, struct err *err)
{
    struct kept *old = NULL;
    int rc = 0;
    if (store->directory[0] != '\0' && !kept->base) {
        rc = snapshot_list_check(&store->list, &kept->snapshot, err);
        if (rc == 0) {
            kept->waiter = *waiter;
            snapshot_disk_add(store, kept);
            rc = SNAPSHOT_LATER;
        }
    } else {
        rc = snapshot_insert(store, kept, &old, err);
    }
    (void)pthread_mutex_unlock(&store->lock);
    snapshot_unref(rc < 0 ? kept : old);
    return rc;
}

int snapshot_keep(struct snapshot_store *store, const struct holding *holding,
                  enum snapshot_origin origin, void *block, const struct snapshot_waiter *waiter,
                  struct err *err)
{
    (void)pthread_mutex_lock(&store->lock);
    struct kept *kept = snapshot_place(store, holding, origin);
    if (!kept) {
        (void)pthread_mutex_unlock(&store->lock);
        snapshot_block_free(store, block, (size_t)holding->bytes);
        return err_set(err, ERR_LIMIT, "unit %" PRId64 ": %d snapshots are held already",
                       holding->unit, HOLDINGS_MAX);
    }
    kept->block = block;
    kept->snapshot.data = block;
    return enter(store, kept, waiter, err);
}

int snapshot_keep_same(struct snapshot_store *store, const struct holding *holding,
                       enum snapshot_origin origin, const struct snapshot_waiter *waiter,
                       struct err *err)
{
    (void)pthread_mutex_lock(&store->lock);
    struct snapshot *found = snapshot_list_find_same(&store->list, holding);
    struct kept *same = found ? kept_of(found) : NULL;
    struct kept *kept = same ? snapshot_place(store, holding, origin) : NULL;
    if (!kept) {
        (void)pthread_mutex_unlock(&store->lock);
        return err_set(err, ERR_NOT_FOUND, "unit %" PRId64 ": no snapshot here has these bytes",
                       holding->unit);
    }
    kept->snapshot.holding.bytes = same->snapshot.holding.bytes;
    if (same->in_file) {
        kept->same = same;
    } else {
        same = same->base ? same->base : same;
        kept->base = same;
        kept->snapshot.data = same->snapshot.data;
    }
    (void)atomic_fetch_add(&same->references, 1);
    return enter(store, kept, waiter, err);
}

const struct snapshot *snapshot_get(struct snapshot_store *store, const char *job, int64_t version,
                                    int64_t unit)
{
    (void)pthread_mutex_lock(&store->lock);
    const struct snapshot *snapshot = snapshot_list_find(&store->list, job, version, unit);
    if (snapshot) {
        (void)atomic_fetch_add(&kept_of(snapshot)->references, 1);
    }
    (void)pthread_mutex_unlock(&store->lock);
    return snapshot;
}

void snapshot_put_back(const struct snapshot *snapshot)
{
    snapshot_unref(kept_of(snapshot));
}

int snapshot_read(const struct snapshot *snapshot, uint64_t offset, void *out, size_t size,
                  struct err *err)
{
    const uint64_t bytes = (uint64_t)snapshot->holding.bytes;
    ASSERT(offset <= bytes && size <= bytes - offset);
    if (snapshot->data) {
        memcpy(out, (const char *)snapshot->data + offset, size);
        return 0;
    }
    const struct kept *kept = kept_of(snapshot);
    int rc = snapshot_disk_read(kept, offset, out, size, err);
    if (rc != 0) {
        log_warn("snapshot_unread", "job=%s version=%" PRId64 " unit=%" PRId64 " error=%s",
                 snapshot->holding.job.text, snapshot->holding.version, snapshot->holding.unit,
                 log_quote(err->text).text);
        snapshot_discard(kept->store, snapshot);
    }
    return rc;
}

/* ---- dropping ---- */

/* Release the lock, and the snapshots that left the list. Returns how many. */
static size_t unlock_gone(struct snapshot_store *store, struct snapshot *gone[HOLDINGS_MAX],
                          size_t gone_count)
{
    for (size_t i = 0; i < gone_count; i++) {
        kept_of(gone[i])->dropped = true;
    }
    if (gone_count > 0) {
        changed(store);
    }
    (void)pthread_mutex_unlock(&store->lock);
    for (size_t i = 0; i < gone_count; i++) {
        snapshot_unref(kept_of(gone[i]));
    }
    return gone_count;
}

void snapshot_discard(struct snapshot_store *store, const struct snapshot *snapshot)
{
    struct snapshot *gone[HOLDINGS_MAX];
    (void)pthread_mutex_lock(&store->lock);
    (void)unlock_gone(store, gone, snapshot_list_discard(&store->list, snapshot, gone));
}

void snapshot_drop(struct snapshot_store *store, const struct drop *drop)
{
    struct snapshot *gone[HOLDINGS_MAX];
    (void)pthread_mutex_lock(&store->lock);
    (void)unlock_gone(store, gone, snapshot_list_drop(&store->list, drop, gone));
}

void snapshot_cut(struct snapshot_store *store, const struct job_id *job, int64_t generation,
                  int64_t version)
{
    const struct snapshot_start start = {.job = *job, .generation = generation, .version = version};
    struct snapshot *gone[HOLDINGS_MAX];
    (void)pthread_mutex_lock(&store->lock);
    (void)unlock_gone(store, gone, snapshot_list_start(&store->list, &start, gone));
}

size_t snapshot_release(struct snapshot_store *store, enum snapshot_origin origin,
                        const struct job_id *job, int64_t generation,
                        const struct outbox_queue *queue)
{
    struct snapshot *gone[HOLDINGS_MAX];
    (void)pthread_mutex_lock(&store->lock);
    return unlock_gone(store, gone,
                       snapshot_list_release(&store->list, origin, job, generation, queue, gone));
}

/* ---- inspecting ---- */

size_t snapshot_holdings(struct snapshot_store *store, struct holding out[HOLDINGS_MAX])
{
    (void)pthread_mutex_lock(&store->lock);
    const size_t count = store->list.count;
    for (size_t i = 0; i < count; i++) {
        out[i] = store->list.item[i]->holding;
    }
    (void)pthread_mutex_unlock(&store->lock);
    return count;
}

uint64_t snapshot_revision(struct snapshot_store *store, bool *whole)
{
    (void)pthread_mutex_lock(&store->lock);
    const uint64_t revision = store->list.revision;
    if (whole) {
        *whole = store->list.whole;
        store->list.whole = false;
    }
    (void)pthread_mutex_unlock(&store->lock);
    return revision;
}

void snapshot_watch(struct snapshot_store *store, int fd)
{
    (void)pthread_mutex_lock(&store->lock);
    store->watch_fd = fd;
    (void)pthread_mutex_unlock(&store->lock);
}

void snapshot_watch_disk(struct snapshot_store *store, struct disk_watch *disk)
{
    (void)pthread_mutex_lock(&store->lock);
    store->disk = disk;
    (void)pthread_mutex_unlock(&store->lock);
}

struct snapshot_bytes snapshot_count_bytes(struct snapshot_store *store,
                                           enum snapshot_origin origin, bool in_memory,
                                           const struct job_id *job, int64_t generation)
{
    struct snapshot_bytes bytes = {0};
    (void)pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < store->places_used; i++) {
        const struct kept *kept = &store->place[i];
        if (atomic_load(&kept->references) == 0 || kept->snapshot.origin != origin ||
            !(kept->block || (kept->in_file && !in_memory))) {
            continue;
        }
        snapshot_bytes_add(&bytes, &kept->snapshot.holding, job, generation);
    }
    (void)pthread_mutex_unlock(&store->lock);
    return bytes;
}

int64_t snapshot_bytes_written(struct snapshot_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    const int64_t bytes = store->bytes_written;
    (void)pthread_mutex_unlock(&store->lock);
    return bytes;
}

/* ---- life ---- */

int snapshot_store_new(const char *directory, struct snapshot_store **out, struct err *err)
{
    struct snapshot_store *store = calloc(1, sizeof(*store));
    if (!store || pthread_mutex_init(&store->lock, NULL) != 0) {
        free(store);
        return err_set(err, ERR_MEMORY, "snapshots");
    }
    (void)pthread_cond_init(&store->work, NULL);
    (void)pthread_cond_init(&store->idle, NULL);
    store->lock_fd = store->watch_fd = -1;
    int rc = 0;
    if (directory) {
        if (strlen(directory) >= sizeof(store->directory)) {
            rc = err_set(err, ERR_INVALID, "path '%s' is too long", directory);
        } else {
            memcpy(store->directory, directory, strlen(directory) + 1);
            rc = snapshot_disk_open(store, err);
        }
    }
    if (rc != 0) {
        snapshot_store_free(&store);
        return rc;
    }
    *out = store;
    return 0;
}

void snapshot_store_free(struct snapshot_store **pointer)
{
    struct snapshot_store *store = *pointer;
    if (!store) {
        return;
    }
    snapshot_disk_close(store);
    for (size_t i = 0; i < store->list.count; i++) {
        snapshot_unref(kept_of(store->list.item[i]));
    }
    snapshot_trim(store);
    (void)pthread_cond_destroy(&store->work);
    (void)pthread_cond_destroy(&store->idle);
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
    *pointer = NULL;
}
