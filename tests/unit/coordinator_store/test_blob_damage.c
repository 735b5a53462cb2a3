#include "tests/support/test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/store/blob_store.h"
#include "tests/unit/coordinator_store/blob_support.h"

#define MIB ((uint64_t)1 << 20)
#define SIZE (2 * MIB)

/* Run SQL on the file beside the store. */
static void change_file(const char *directory, const char *sql)
{
    char path[512];
    sqlite3 *db = NULL;
    snprintf(path, sizeof(path), "%s/checkpoints.db", directory);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, 10000), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static bool always(void *arg)
{
    (void)arg;
    return true;
}

/* Read to the end; returns the code of the failure. */
static int read_rest(struct blob_reader *reader, uint64_t offset, struct err *err)
{
    static char piece[BLOB_CHUNK_BYTES];
    size_t got = 1;
    int rc = 0;
    for (; !rc && got > 0; offset += got) {
        rc = blob_read(reader, offset, piece, sizeof(piece), &got, err);
    }
    return rc;
}

/* A store with one blob whose last chunk is damaged on the disk. */
static struct blob_store *damaged_store(const char *directory, char sha256[BLOB_SHA256_SIZE])
{
    struct blob_store *store = store_open(directory);
    struct err err = {0};
    assert_ok(store_put(store, 1, SIZE, sha256, &err), &err);
    blob_drain(store);
    change_file(directory, "UPDATE chunks SET data = zeroblob(length(data)) "
                           "WHERE id = (SELECT max(id) FROM chunks)");
    return store;
}

static void a_damaged_blob_is_replaced_by_an_upload_of_its_content(void **state)
{
    char sha256[BLOB_SHA256_SIZE];
    struct blob_store *store = damaged_store(*state, sha256);
    struct err err = {0};
    assert_false(blob_is_damaged(store, sha256));
    assert_int_equal(blob_check(store, sha256, always, NULL, &err), ERR_FORMAT);
    assert_true(blob_is_damaged(store, sha256));
    char untold[BLOB_SHA256_SIZE];
    assert_true(blob_untold_damage(store, untold));
    assert_string_equal(untold, sha256);
    assert_true(blob_tell_damage(store, sha256));
    assert_false(blob_tell_damage(store, sha256));
    assert_false(blob_untold_damage(store, untold));
    assert_ok(store_put(store, 1, SIZE, sha256, &err), &err);
    assert_false(blob_is_damaged(store, sha256));
    assert_true(store_holds(store, sha256, 1, SIZE, &err));
    blob_close(&store);
}

static void a_reader_of_a_replaced_copy_does_not_mark_the_new_one(void **state)
{
    char sha256[BLOB_SHA256_SIZE];
    struct blob_store *store = damaged_store(*state, sha256);
    struct blob_reader *reader = NULL;
    struct err err = {0};
    uint64_t size = 0;
    static char piece[BLOB_CHUNK_BYTES];
    size_t got = 0;
    assert_ok(blob_reader_open(store, sha256, &reader, &size, &err), &err);
    assert_ok(blob_read(reader, 0, piece, sizeof(piece), &got, &err), &err);
    assert_int_equal(blob_check(store, sha256, always, NULL, &err), ERR_FORMAT);
    /* The reader comes before the writer removes the rows of the old copy. */
    change_file(*state,
                "CREATE TRIGGER stay BEFORE DELETE ON chunks BEGIN SELECT RAISE(IGNORE); END");
    assert_ok(store_put(store, 1, SIZE, sha256, &err), &err);
    assert_int_equal(read_rest(reader, got, &err), ERR_FORMAT);
    assert_false(blob_is_damaged(store, sha256));
    blob_reader_close(&reader);
    assert_ok(blob_check(store, sha256, always, NULL, &err), &err);
    blob_close(&store);
}

/* An upload of other content, whose end comes before another one's in the same batch. */
struct interruption {
    struct blob_store *store;
    const char *sha256; /* that is read meanwhile */
    int code;           /* of reading it */
    struct outcome stored;
};

static void read_damaged(void *arg, int code, const char *sha256, uint64_t size,
                         const struct err *err)
{
    struct interruption *interruption = arg;
    struct err damage = {0};
    interruption->code =
        blob_check(interruption->store, interruption->sha256, always, NULL, &damage);
    outcome_set(&interruption->stored, code, sha256, size, err);
}

static void damage_found_while_the_same_content_is_stored_stays_known(void **state)
{
    char sha256[BLOB_SHA256_SIZE];
    struct blob_store *store = damaged_store(*state, sha256);
    struct interruption first = {.store = store, .sha256 = sha256};
    struct blob_upload *upload[2] = {NULL, NULL};
    struct outcome stored;
    struct err err = {0};
    static char content[SIZE];
    outcome_init(&first.stored);
    outcome_init(&stored);
    for (size_t i = 0; i < 2; i++) {
        assert_ok(blob_upload_open(store, NULL, SIZE, &upload[i], &err), &err);
    }
    content_fill(1, 0, content, sizeof(content));
    assert_ok(blob_upload_write_all(upload[1], content, sizeof(content), &err), &err);
    blob_upload_finish(upload[0], read_damaged, &first);
    blob_upload_finish(upload[1], outcome_set, &stored);
    assert_int_equal(outcome_wait(&first.stored), 0);
    assert_int_equal(outcome_wait(&stored), 0);
    assert_int_equal(first.code, ERR_FORMAT);
    assert_true(blob_is_damaged(store, sha256));
    blob_close(&store);
    outcome_done(&first.stored);
    outcome_done(&stored);
}

/* Store `count` blobs with the seeds from `first` on, in one batch. */
static void put_many(struct blob_store *store, uint64_t first, size_t count,
                     char (*sha256)[BLOB_SHA256_SIZE])
{
    static struct blob_upload *upload[BLOB_DAMAGED_MAX];
    static struct outcome stored[BLOB_DAMAGED_MAX];
    struct err err = {0};
    for (size_t i = 0; i < count; i++) {
        const uint64_t number = first + i;
        outcome_init(&stored[i]);
        assert_ok(blob_upload_open(store, NULL, SIZE, &upload[i], &err), &err);
        assert_ok(blob_upload_write_all(upload[i], &number, sizeof(number), &err), &err);
    }
    for (size_t i = 0; i < count; i++) {
        blob_upload_finish(upload[i], outcome_set, &stored[i]);
    }
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(outcome_wait(&stored[i]), 0);
        memcpy(sha256[i], stored[i].sha256, BLOB_SHA256_SIZE);
        outcome_done(&stored[i]);
    }
}

static void damage_is_found_however_many_damaged_blobs_were_deleted_before(void **state)
{
    struct blob_store *store = store_open(*state);
    static char sha256[BLOB_DAMAGED_MAX][BLOB_SHA256_SIZE];
    struct err err = {0};
    for (size_t count = BLOB_DAMAGED_MAX; count > 0; count = count > 1 ? 1 : 0) {
        put_many(store, count, count, sha256);
        blob_drain(store);
        change_file(*state, "UPDATE chunks SET data = zeroblob(length(data))");
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(blob_check(store, sha256[i], always, NULL, &err), ERR_FORMAT);
            assert_true(blob_tell_damage(store, sha256[i]));
            blob_delete(store, sha256[i]);
        }
        blob_drain(store);
    }
    blob_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_damaged_blob_is_replaced_by_an_upload_of_its_content),
        test_with_directory(damage_found_while_the_same_content_is_stored_stays_known),
        test_with_directory(damage_is_found_however_many_damaged_blobs_were_deleted_before),
        test_with_directory(a_reader_of_a_replaced_copy_does_not_mark_the_new_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
