#include "tests/support/test.h"

#include <string.h>

#include "tests/unit/coordinator_store/blob_support.h"

#define MIB ((uint64_t)1 << 20)
#define CONTENT_BYTES 1000

static void sealed_set(void *arg, const char *sha256)
{
    const struct err none = {0};
    outcome_set(arg, 0, sha256, 0, &none);
}

/* An upload of content(seed) that is sealed with the hash in *sha256. */
static struct blob_upload *sealed_upload(struct blob_store *store, uint64_t seed,
                                         char sha256[BLOB_SHA256_SIZE])
{
    struct blob_upload *upload = NULL;
    struct outcome sealed;
    struct err err = {0};
    char content[CONTENT_BYTES];
    content_fill(seed, 0, content, sizeof(content));
    outcome_init(&sealed);
    assert_ok(blob_upload_open(store, NULL, 4 * MIB, &upload, &err), &err);
    assert_int_equal(blob_upload_write(upload, content, sizeof(content), &err), sizeof(content));
    blob_upload_seal(upload, sealed_set, &sealed);
    assert_int_equal(outcome_wait(&sealed), 0);
    memcpy(sha256, sealed.sha256, BLOB_SHA256_SIZE);
    outcome_done(&sealed);
    return upload;
}

static void a_sealed_upload_tells_its_hash_and_is_published_by_finish_alone(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct outcome stored;
    uint64_t size = 0;
    char sha256[BLOB_SHA256_SIZE], expected[BLOB_SHA256_SIZE];
    struct blob_upload *upload = sealed_upload(store, 7, sha256);
    content_sha256(7, CONTENT_BYTES, expected);
    assert_string_equal(sha256, expected);
    assert_int_equal(store_stat(store, sha256, &size, &err), ERR_NOT_FOUND);
    outcome_init(&stored);
    blob_upload_finish(upload, outcome_set, &stored);
    assert_int_equal(outcome_wait(&stored), 0);
    assert_string_equal(stored.sha256, expected);
    outcome_done(&stored);
    assert_true(store_holds(store, sha256, 7, CONTENT_BYTES, &err));
    blob_close(&store);
}

static void a_sealed_upload_of_many_chunks_has_the_hash_of_all_of_them(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct blob_upload *upload = NULL;
    struct outcome sealed;
    char expected[BLOB_SHA256_SIZE];
    static char content[3 * (1 << 20) + 17];
    content_fill(8, 0, content, sizeof(content));
    content_sha256(8, sizeof(content), expected);
    outcome_init(&sealed);
    assert_ok(blob_upload_open(store, NULL, 4 * MIB, &upload, &err), &err);
    assert_ok(blob_upload_write_all(upload, content, sizeof(content), &err), &err);
    blob_upload_seal(upload, sealed_set, &sealed);
    assert_int_equal(outcome_wait(&sealed), 0);
    assert_string_equal(sealed.sha256, expected);
    outcome_done(&sealed);
    blob_upload_abort(upload);
    blob_drain(store);
    struct blob_statistics statistics;
    blob_statistics(store, &statistics);
    assert_int_equal(statistics.blobs, 0);
    blob_close(&store);
}

static void a_deletion_between_seal_and_finish_leaves_the_new_copy(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct outcome stored;
    char first[BLOB_SHA256_SIZE], second[BLOB_SHA256_SIZE];
    assert_ok(store_put(store, 9, CONTENT_BYTES, first, &err), &err);
    struct blob_upload *upload = sealed_upload(store, 9, second);
    assert_string_equal(first, second);
    blob_delete(store, first);
    outcome_init(&stored);
    blob_upload_finish(upload, outcome_set, &stored);
    assert_int_equal(outcome_wait(&stored), 0);
    outcome_done(&stored);
    assert_true(store_holds(store, second, 9, CONTENT_BYTES, &err));
    blob_close(&store);
}

static void a_store_that_closes_drops_a_sealed_upload(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    uint64_t size = 0;
    char sha256[BLOB_SHA256_SIZE];
    assert_non_null(sealed_upload(store, 10, sha256));
    blob_close(&store);
    store = store_open(*state);
    assert_int_equal(store_stat(store, sha256, &size, &err), ERR_NOT_FOUND);
    blob_close(&store);
}

static void a_seal_that_is_queued_when_the_store_closes_is_reported(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct blob_upload *upload = NULL, *open = NULL;
    struct outcome sealed;
    outcome_init(&sealed);
    /* The open upload lets the writer wait for more before it takes the seal. */
    assert_ok(blob_upload_open(store, NULL, MIB, &open, &err), &err);
    assert_ok(blob_upload_open(store, NULL, MIB, &upload, &err), &err);
    blob_upload_seal(upload, sealed_set, &sealed);
    blob_close(&store);
    assert_true(sealed.is_done);
    outcome_done(&sealed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_sealed_upload_tells_its_hash_and_is_published_by_finish_alone),
        test_with_directory(a_sealed_upload_of_many_chunks_has_the_hash_of_all_of_them),
        test_with_directory(a_deletion_between_seal_and_finish_leaves_the_new_copy),
        test_with_directory(a_store_that_closes_drops_a_sealed_upload),
        test_with_directory(a_seal_that_is_queued_when_the_store_closes_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
