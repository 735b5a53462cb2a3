#include "tests/unit/coordinator_store/blob_support.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "net/hash.h"

#define PIECE 100000u /* no divisor of a chunk */

void outcome_init(struct outcome *outcome)
{
    memset(outcome, 0, sizeof(*outcome));
    ASSERT(pthread_mutex_init(&outcome->lock, NULL) == 0 &&
           pthread_cond_init(&outcome->changed, NULL) == 0);
}

void outcome_done(struct outcome *outcome)
{
    ASSERT(pthread_cond_destroy(&outcome->changed) == 0 &&
           pthread_mutex_destroy(&outcome->lock) == 0);
}

void outcome_set(void *arg, int code, const char *sha256, uint64_t size, const struct err *err)
{
    struct outcome *outcome = arg;
    ASSERT(pthread_mutex_lock(&outcome->lock) == 0);
    ASSERT(!outcome->is_done);
    outcome->is_done = true;
    outcome->code = code;
    outcome->size = size;
    outcome->err = *err;
    memcpy(outcome->sha256, sha256, BLOB_SHA256_SIZE);
    ASSERT(pthread_cond_broadcast(&outcome->changed) == 0);
    ASSERT(pthread_mutex_unlock(&outcome->lock) == 0);
}

int outcome_wait(struct outcome *outcome)
{
    ASSERT(pthread_mutex_lock(&outcome->lock) == 0);
    while (!outcome->is_done) {
        ASSERT(pthread_cond_wait(&outcome->changed, &outcome->lock) == 0);
    }
    int rc = outcome->code;
    ASSERT(pthread_mutex_unlock(&outcome->lock) == 0);
    return rc;
}

void pause_end(void *arg)
{
    struct pause *pause = arg;
    ASSERT(pthread_mutex_lock(&pause->lock) == 0);
    pause->has_room = true;
    ASSERT(pthread_cond_signal(&pause->changed) == 0);
    ASSERT(pthread_mutex_unlock(&pause->lock) == 0);
}

void pause_wait(struct pause *pause)
{
    ASSERT(pthread_mutex_lock(&pause->lock) == 0);
    while (!pause->has_room) {
        ASSERT(pthread_cond_wait(&pause->changed, &pause->lock) == 0);
    }
    pause->has_room = false;
    ASSERT(pthread_mutex_unlock(&pause->lock) == 0);
}

/* splitmix64 of the seed and the number of the 8-byte word. */
static uint64_t word_at(uint64_t seed, uint64_t index)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + (index + 1) * 0xd1342543de82ef95u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void content_fill(uint64_t seed, uint64_t offset, void *out, size_t size)
{
    unsigned char *to = out;
    for (size_t done = 0; done < size;) {
        uint64_t word = word_at(seed, (offset + done) / 8);
        size_t skip = (size_t)((offset + done) % 8);
        size_t count = 8 - skip < size - done ? 8 - skip : size - done;
        memcpy(to + done, (const unsigned char *)&word + skip, count);
        done += count;
    }
}

void content_sha256(uint64_t seed, uint64_t size, char out[BLOB_SHA256_SIZE])
{
    struct sha256 *hash = NULL;
    struct err err = {0};
    ASSERT(sha256_new(&hash, &err) == 0);
    char piece[4096];
    for (uint64_t done = 0; done < size;) {
        size_t count = size - done < sizeof(piece) ? (size_t)(size - done) : sizeof(piece);
        content_fill(seed, done, piece, count);
        sha256_update(hash, piece, count);
        done += count;
    }
    sha256_finish_text(hash, out);
    sha256_free(&hash);
}

struct blob_store *store_open(const char *directory)
{
    struct blob_config config = {
        .directory = directory, .min_free_bytes = 0, .queue_bytes = QUEUE_BYTES};
    struct blob_store *store = NULL;
    struct err err = {0};
    return blob_open(&config, &store, &err) == 0 ? store : NULL;
}

int store_put(struct blob_store *store, uint64_t seed, uint64_t size, char sha256[BLOB_SHA256_SIZE],
              struct err *err)
{
    struct blob_upload *upload = NULL;
    int rc = blob_upload_open(store, NULL, size, &upload, err);
    if (rc) {
        return rc;
    }
    char *piece = malloc(PIECE);
    ASSERT(piece);
    for (uint64_t done = 0; done < size && rc == 0;) {
        size_t count = size - done < PIECE ? (size_t)(size - done) : PIECE;
        content_fill(seed, done, piece, count);
        rc = blob_upload_write_all(upload, piece, count, err);
        done += count;
    }
    free(piece);
    if (rc) {
        blob_upload_abort(upload);
        return rc;
    }
    struct outcome outcome;
    outcome_init(&outcome);
    blob_upload_finish(upload, outcome_set, &outcome);
    rc = outcome_wait(&outcome);
    if (rc) {
        *err = outcome.err;
    }
    memcpy(sha256, outcome.sha256, BLOB_SHA256_SIZE);
    outcome_done(&outcome);
    return rc;
}

static int compare(struct blob_reader *reader, uint64_t seed, uint64_t size, struct err *err)
{
    char *actual = malloc(PIECE), *expected = malloc(PIECE);
    ASSERT(actual && expected);
    int rc = 0;
    size_t count = 1;
    for (uint64_t offset = 0; rc == 0 && count > 0; offset += count) {
        rc = blob_read(reader, offset, actual, PIECE, &count, err);
        if (rc == 0 && (count == 0) != (offset == size)) {
            rc = err_set(err, ERR_FORMAT, "the blob ends at another byte");
        }
        content_fill(seed, offset, expected, rc ? 0 : count);
        if (rc == 0 && memcmp(actual, expected, count) != 0) {
            rc = err_set(err, ERR_FORMAT, "the blob differs");
        }
    }
    free(actual);
    free(expected);
    return rc;
}

int store_stat(struct blob_store *store, const char *sha256, uint64_t *size, struct err *err)
{
    struct blob_reader *reader = NULL;
    int rc = blob_reader_open(store, sha256, &reader, size, err);
    blob_reader_close(&reader);
    return rc;
}

bool store_holds(struct blob_store *store, const char *sha256, uint64_t seed, uint64_t size,
                 struct err *err)
{
    struct blob_reader *reader = NULL;
    uint64_t actual = 0;
    int rc = blob_reader_open(store, sha256, &reader, &actual, err);
    if (rc == 0 && actual != size) {
        rc = err_set(err, ERR_FORMAT, "the blob has another size");
    }
    if (rc == 0) {
        rc = compare(reader, seed, size, err);
    }
    blob_reader_close(&reader);
    return rc == 0;
}

/* Uses the system's file layer: one of the tests puts faults into the default one. */
bool database_is_sound(const char *path)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    bool sound =
        sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "unix") == SQLITE_OK &&
        sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW &&
        strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return sound;
}
