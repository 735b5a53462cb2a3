#include "agent/copies/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "agent/copies/holdings.h"
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
    kept->origin = origin;
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
    store->revision++;
    if (store->watch_fd >= 0) {
        (void)eventfd_write(store->watch_fd,
                            1); /* fails only if the counter is full, and then it is readable */
    }
}

/* Its index, or count. Under the lock. */
static size_t find(const struct snapshot_store *store, const char *job, int64_t version,
                   int64_t unit)
{
    for (size_t i = 0; i < store->count; i++) {
        const struct holding *holding = &store->kept[i]->snapshot.holding;
        if (holding->unit == unit && holding->version == version &&
            strcmp(holding->job.text, job) == 0) {
            return i;
        }
    }
    return store->count;
}

static bool is_cut(const struct snapshot_store *store, const struct holding *holding)
{
    for (size_t i = 0; i < SNAPSHOT_CUTS_MAX; i++) {
        const struct cut *cut = &store->cut[i];
        if (holding->version > cut->version && holding->generation < cut->generation &&
            strcmp(holding->job.text, cut->job.text) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_same_file(const struct holding *a, const struct holding *b)
{
    return a->generation == b->generation && strcmp(a->sha256, b->sha256) == 0;
}

bool snapshot_has_file(const struct snapshot_store *store, const struct holding *holding)
{
    const size_t index = find(store, holding->job.text, holding->version, holding->unit);
    return index < store->count && store->kept[index]->in_file &&
           is_same_file(&store->kept[index]->snapshot.holding, holding);
}

static bool is_whole(const struct snapshot_store *store, const struct holding *holding)
{
    struct holdings_units units = {.of = holding};
    for (size_t i = 0; i < store->count; i++) {
        holdings_units_count(&units, &store->kept[i]->snapshot.holding);
    }
    return holdings_units_are_whole(&units);
}

/* Whether it may be put at that index of the list. */
static int check(const struct snapshot_store *store, const struct kept *kept, size_t index,
                 struct err *err)
{
    const struct holding *holding = &kept->snapshot.holding;
    const size_t most = kept->origin == SNAPSHOT_REPLICA ? HOLDINGS_MAX - UNITS_MAX : HOLDINGS_MAX;
    if (is_cut(store, holding)) {
        return err_set(err, ERR_STALE,
                       "version %" PRId64 " of generation %" PRId64 " was abandoned",
                       holding->version, holding->generation);
    }
    if (index < store->count &&
        store->kept[index]->snapshot.holding.generation > holding->generation) {
        return err_set(err, ERR_STALE, "version %" PRId64 " is held of a later generation",
                       holding->version);
    }
    if (index == store->count && index >= most) {
        return err_set(err, ERR_LIMIT, "unit %" PRId64 ": %zu snapshots are held already",
                       holding->unit, most);
    }
    return 0;
}

int snapshot_insert(struct snapshot_store *store, struct kept *kept, struct kept **old,
                    struct err *err)
{
    const struct holding *holding = &kept->snapshot.holding;
    const size_t index = find(store, holding->job.text, holding->version, holding->unit);
    int rc = check(store, kept, index, err);
    if (rc != 0) {
        return rc;
    }
    *old = NULL;
    if (index == store->count) {
        store->count++;
    } else {
        *old = store->kept[index];
        /* The file of the same name stays. */
        (*old)->dropped = !is_same_file(&(*old)->snapshot.holding, holding);
    }
    store->kept[index] = kept;
    store->whole = store->whole || is_whole(store, holding);
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
        const struct holding *holding = &kept->snapshot.holding;
        rc = check(store, kept, find(store, holding->job.text, holding->version, holding->unit),
                   err);
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

static struct kept *find_same(const struct snapshot_store *store, const struct holding *holding)
{
    for (size_t i = 0; i < store->count; i++) {
        const struct holding *other = &store->kept[i]->snapshot.holding;
        if (other->unit == holding->unit && strcmp(other->sha256, holding->sha256) == 0 &&
            strcmp(other->job.text, holding->job.text) == 0) {
            return store->kept[i];
        }
    }
    return NULL;
}

int snapshot_keep_same(struct snapshot_store *store, const struct holding *holding,
                       enum snapshot_origin origin, const struct snapshot_waiter *waiter,
                       struct err *err)
{
    (void)pthread_mutex_lock(&store->lock);
    struct kept *same = find_same(store, holding);
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

/* Users see it as constant; it is the first member of what this module owns. */
static struct kept *kept_of(const struct snapshot *snapshot)
{
    return (struct kept *)(uintptr_t)snapshot;
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

typedef bool (*goes_fn)(const struct kept *kept, const void *arg);

/* Drop the snapshots for which `goes` returns true. Returns how many. */
static size_t remove_all(struct snapshot_store *store, goes_fn goes, const void *arg)
{
    struct kept *gone[HOLDINGS_MAX];
    size_t gone_count = 0;
    (void)pthread_mutex_lock(&store->lock);
    size_t stay = 0;
    for (size_t i = 0; i < store->count; i++) {
        if (goes(store->kept[i], arg)) {
            store->kept[i]->dropped = true;
            gone[gone_count++] = store->kept[i];
        } else {
            store->kept[stay++] = store->kept[i];
        }
    }
    store->count = stay;
    if (gone_count > 0) {
        changed(store);
    }
    (void)pthread_mutex_unlock(&store->lock);
    for (size_t i = 0; i < gone_count; i++) {
        snapshot_unref(gone[i]);
    }
    return gone_count;
}

static bool is_that(const struct kept *kept, const void *arg)
{
    return &kept->snapshot == arg;
}

void snapshot_discard(struct snapshot_store *store, const struct snapshot *snapshot)
{
    (void)remove_all(store, is_that, snapshot);
}

static bool is_dropped(const struct kept *kept, const void *arg)
{
    const struct drop *drop = arg;
    const struct holding *holding = &kept->snapshot.holding;
    return holding->version < drop->below_version && strcmp(holding->job.text, drop->job.text) == 0;
}

void snapshot_drop(struct snapshot_store *store, const struct drop *drop)
{
    (void)remove_all(store, is_dropped, drop);
}

static bool is_cut_off(const struct kept *kept, const void *arg)
{
    const struct cut *cut = arg;
    const struct holding *holding = &kept->snapshot.holding;
    return holding->version > cut->version && strcmp(holding->job.text, cut->job.text) == 0;
}

void snapshot_cut(struct snapshot_store *store, const struct job_id *job, int64_t generation,
                  int64_t version)
{
    const struct cut cut = {.job = *job, .generation = generation, .version = version};
    (void)pthread_mutex_lock(&store->lock);
    store->cut[store->cuts++ % SNAPSHOT_CUTS_MAX] = cut;
    (void)pthread_mutex_unlock(&store->lock);
    (void)remove_all(store, is_cut_off, &cut);
}

struct release {
    enum snapshot_origin origin;
    const struct job_id *job;
    int64_t generation;
    bool (*goes)(const void *arg, int64_t version);
    const void *arg;
};

static bool is_released(const struct kept *kept, const void *arg)
{
    const struct release *release = arg;
    const struct holding *holding = &kept->snapshot.holding;
    return kept->origin == release->origin && holding->generation == release->generation &&
           strcmp(holding->job.text, release->job->text) == 0 &&
           release->goes(release->arg, holding->version);
}

size_t snapshot_release(struct snapshot_store *store, enum snapshot_origin origin,
                        const struct job_id *job, int64_t generation,
                        bool (*goes)(const void *arg, int64_t version), const void *arg)
{
    const struct release release = {origin, job, generation, goes, arg};
    return remove_all(store, is_released, &release);
}

/* ---- looking ---- */

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

uint64_t snapshot_revision(struct snapshot_store *store, bool *whole)
{
    (void)pthread_mutex_lock(&store->lock);
    const uint64_t revision = store->revision;
    if (whole) {
        *whole = store->whole;
        store->whole = false;
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
        const struct holding *holding = &kept->snapshot.holding;
        if (atomic_load(&kept->references) == 0 || kept->origin != origin ||
            !(kept->block || (kept->in_file && !in_memory))) {
            continue;
        }
        bytes.held += holding->bytes;
        if (holding->generation == generation && strcmp(holding->job.text, job->text) == 0) {
            bytes.present += holding->bytes;
        }
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
    for (size_t i = 0; i < store->count; i++) {
        snapshot_unref(store->kept[i]);
    }
    snapshot_trim(store);
    (void)pthread_cond_destroy(&store->work);
    (void)pthread_cond_destroy(&store->idle);
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
    *pointer = NULL;
}
