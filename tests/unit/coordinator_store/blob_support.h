/* blob_support.h: helpers for the tests of the blob store: content made from a seed, uploads that
 * wait for their end, and reading back. Content is a function of (seed, offset), so that any piece
 * of it can be checked alone. */
#ifndef TESTS_UNIT_COORDINATOR_STORE_BLOB_SUPPORT_H
#define TESTS_UNIT_COORDINATOR_STORE_BLOB_SUPPORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/store/blobs.h"

#define QUEUE_BYTES (64u << 20)

/* The result of a done callback; wait for it with outcome_wait. */
struct outcome {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done;
    int code;
    uint64_t size;
    char sha256[BLOB_SHA256_SIZE];
    struct err err;
};
void outcome_init(struct outcome *outcome);
void outcome_done(struct outcome *outcome);
void outcome_set(void *arg, int code, const char *sha256, uint64_t size, const struct err *err);
/* The code. */
int outcome_wait(struct outcome *outcome);

/* For an upload that has to wait: pause_end is its on_room. */
struct pause {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_room;
};
#define PAUSE_INIT                                                                                 \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false                                 \
    }
void pause_end(void *pause);
/* Until it has ended since the last wait. */
void pause_wait(struct pause *pause);

void content_fill(uint64_t seed, uint64_t offset, void *out, size_t size);
void content_sha256(uint64_t seed, uint64_t size, char out[BLOB_SHA256_SIZE]);

struct blob_store *store_open(const char *directory);
/* Upload content(seed, size) in pieces and wait: the code of the outcome. sha256: out. */
int store_put(struct blob_store *store, uint64_t seed, uint64_t size, char sha256[BLOB_SHA256_SIZE],
              struct err *err);
/* Whether the blob is there, and its size: as blob_reader_open. */
int store_stat(struct blob_store *store, const char *sha256, uint64_t *size, struct err *err);
/* Whether the blob exists and is content(seed, size). false: see err. */
bool store_holds(struct blob_store *store, const char *sha256, uint64_t seed, uint64_t size,
                 struct err *err);
/* Whether SQLite finds nothing wrong with a file that no store has open. */
bool database_is_sound(const char *path);

#endif
