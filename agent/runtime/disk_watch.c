#include "agent/runtime/disk_watch.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

struct disk_call {
    const char *what; /* NULL: an unused place */
    int64_t since_ms, patience_ms;
};

struct disk_watch {
    pthread_mutex_t lock;
    struct disk_call call[DISK_CALLS_MAX];
};

int disk_watch_new(struct disk_watch **out, struct err *err)
{
    struct disk_watch *watch = calloc(1, sizeof(*watch));
    if (!watch || pthread_mutex_init(&watch->lock, NULL) != 0) {
        free(watch);
        return err_set(err, ERR_MEMORY, "disk watch");
    }
    *out = watch;
    return 0;
}

void disk_watch_free(struct disk_watch **watch)
{
    if (*watch) {
        (void)pthread_mutex_destroy(&(*watch)->lock);
        free(*watch);
        *watch = NULL;
    }
}

size_t disk_watch_begin(struct disk_watch *watch, const char *what, uint64_t bytes, int64_t now_ms)
{
    size_t place = 0;
    if (!watch) {
        return DISK_CALLS_MAX;
    }
    (void)pthread_mutex_lock(&watch->lock);
    while (place < DISK_CALLS_MAX && watch->call[place].what) {
        place++;
    }
    if (place < DISK_CALLS_MAX) {
        watch->call[place] = (struct disk_call){
            .what = what,
            .since_ms = now_ms,
            .patience_ms = DISK_PATIENCE_MS + (int64_t)(bytes / DISK_BYTES_PER_MS),
        };
    }
    (void)pthread_mutex_unlock(&watch->lock);
    return place;
}

void disk_watch_again(struct disk_watch *watch, size_t place, int64_t now_ms)
{
    if (watch && place < DISK_CALLS_MAX) {
        (void)pthread_mutex_lock(&watch->lock);
        watch->call[place].since_ms = now_ms;
        (void)pthread_mutex_unlock(&watch->lock);
    }
}

void disk_watch_end(struct disk_watch *watch, size_t place)
{
    if (watch && place < DISK_CALLS_MAX) {
        (void)pthread_mutex_lock(&watch->lock);
        watch->call[place].what = NULL;
        (void)pthread_mutex_unlock(&watch->lock);
    }
}

int disk_watch_check(struct disk_watch *watch, int64_t now_ms, struct err *err)
{
    const char *what = NULL;
    int64_t longest_ms = 0;
    if (!watch) {
        return 0;
    }
    (void)pthread_mutex_lock(&watch->lock);
    for (size_t i = 0; i < DISK_CALLS_MAX; i++) {
        const struct disk_call *call = &watch->call[i];
        const int64_t taken_ms = now_ms - call->since_ms;
        if (call->what && taken_ms >= call->patience_ms && taken_ms > longest_ms) {
            longest_ms = taken_ms;
            what = call->what;
        }
    }
    (void)pthread_mutex_unlock(&watch->lock);
    return what ? err_set(err, ERR_TIMEOUT, "%s: the disk has not answered for %" PRId64 " s", what,
                          longest_ms / 1000)
                : 0;
}
