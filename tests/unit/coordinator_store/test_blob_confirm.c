#include "tests/support/test.h"

#include "tests/unit/coordinator_store/blob_support.h"

#define MIB ((uint64_t)1 << 20)

static int confirm(struct blob_store *store, const char *sha256, struct outcome *outcome)
{
    struct err err = {0};
    outcome_init(outcome);
    assert_ok(blob_confirm(store, sha256, outcome_set, outcome, &err), &err);
    int rc = outcome_wait(outcome);
    outcome_done(outcome);
    return rc;
}

static void a_blob_that_is_there_is_confirmed_with_its_size(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct outcome outcome;
    char sha256[BLOB_SHA256_SIZE], other[BLOB_SHA256_SIZE];
    assert_ok(store_put(store, 1, 3 * MIB + 5, sha256, &err), &err);
    content_sha256(2, MIB, other);
    assert_int_equal(confirm(store, sha256, &outcome), 0);
    assert_int_equal(outcome.size, 3 * MIB + 5);
    assert_string_equal(outcome.sha256, sha256);
    assert_int_equal(confirm(store, other, &outcome), ERR_NOT_FOUND);
    assert_holds(outcome.err.text, other);
    assert_int_equal(blob_confirm(store, "ABC", outcome_set, &outcome, &err), ERR_INVALID);
    struct blob_statistics statistics;
    blob_statistics(store, &statistics);
    assert_int_equal(statistics.blobs, 1);
    assert_true(store_holds(store, sha256, 1, 3 * MIB + 5, &err));
    blob_close(&store);
}

static void a_blob_whose_deletion_was_ordered_is_not_confirmed_any_more(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct outcome outcome;
        char sha256[BLOB_SHA256_SIZE];
        assert_ok(store_put(store, seed, MIB, sha256, &err), &err);
        blob_delete(store, sha256);
        assert_int_equal(confirm(store, sha256, &outcome), ERR_NOT_FOUND);
    }
    blob_close(&store);
}

static void a_blob_that_is_finished_before_the_question_is_confirmed(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct blob_upload *upload = NULL;
    struct outcome stored, confirmed;
    char sha256[BLOB_SHA256_SIZE];
    static char content[1000];
    content_fill(9, 0, content, sizeof(content));
    content_sha256(9, sizeof(content), sha256);
    outcome_init(&stored);
    assert_ok(blob_upload_open(store, sha256, MIB, &upload, &err), &err);
    assert_int_equal(blob_upload_write(upload, content, sizeof(content), &err), sizeof(content));
    blob_upload_finish(upload, outcome_set, &stored);
    assert_int_equal(confirm(store, sha256, &confirmed), 0);
    assert_int_equal(outcome_wait(&stored), 0);
    outcome_done(&stored);
    blob_close(&store);
}

static void a_question_needs_no_space(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct outcome outcome;
    char sha256[BLOB_SHA256_SIZE];
    bool low = true;
    assert_ok(store_put(store, 1, MIB, sha256, &err), &err);
    assert_ok(blob_disk_low(store, &low, &err), &err);
    assert_false(low);
    blob_close(&store);
    struct blob_config config = {
        .directory = *state, .min_free_bytes = UINT64_MAX / 2, .queue_bytes = QUEUE_BYTES};
    assert_ok(blob_open(&config, &store, &err), &err);
    assert_ok(blob_disk_low(store, &low, &err), &err);
    assert_true(low);
    assert_int_equal(confirm(store, sha256, &outcome), 0);
    blob_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_blob_that_is_there_is_confirmed_with_its_size),
        test_with_directory(a_blob_whose_deletion_was_ordered_is_not_confirmed_any_more),
        test_with_directory(a_blob_that_is_finished_before_the_question_is_confirmed),
        test_with_directory(a_question_needs_no_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
