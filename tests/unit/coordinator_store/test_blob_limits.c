/* The blob store's bounds: of an upload, of simultaneous uploads, of the queue and of the disk. */
#include <stdlib.h>

#include "coordinator/store/blob_queue.h"
#include "coordinator/store/blobs.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_store/blob_support.h"

#define MIB ((uint64_t)1 << 20)

static void an_upload_is_bounded_and_its_hash_is_checked_for_form(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct blob_upload *upload = NULL;
    assert_int_equal(blob_upload_open(store, "ABC", 10, &upload, &err), ERR_INVALID);
    assert_ok(blob_upload_open(store, NULL, 10, &upload, &err), &err);
    assert_int_equal(blob_upload_write(upload, "12345678", 8, &err), 8);
    assert_int_equal(blob_upload_write(upload, "901", 3, &err), ERR_LIMIT);
    assert_int_equal(blob_upload_write_all(upload, "901", 3, &err), ERR_LIMIT);
    assert_int_equal(blob_upload_write(upload, "90", 2, &err), 2);
    blob_upload_abort(upload);

    struct blob_config config = {.directory = *state, .queue_bytes = BLOB_CHUNK_BYTES - 1};
    struct blob_store *other = NULL;
    assert_int_equal(blob_open(&config, &other, &err), ERR_INVALID);
    blob_close(&store);
}

static void more_uploads_than_the_bound_are_refused_and_ended_ones_make_room(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct blob_upload *upload[BLOB_UPLOADS_MAX], *extra = NULL;
    for (size_t i = 0; i < BLOB_UPLOADS_MAX; i++) {
        assert_ok(blob_upload_open(store, NULL, 10, &upload[i], &err), &err);
    }
    assert_int_equal(blob_upload_open(store, NULL, 10, &extra, &err), ERR_LIMIT);
    blob_upload_abort(upload[7]);
    blob_drain(store);
    assert_ok(blob_upload_open(store, NULL, 10, &upload[7], &err), &err);
    for (size_t i = 0; i < BLOB_UPLOADS_MAX; i++) {
        blob_upload_abort(upload[i]);
    }
    blob_close(&store);
}

static void below_the_space_that_is_to_stay_free_new_blobs_are_refused(void **state)
{
    struct blob_config config = {
        .directory = *state, .min_free_bytes = UINT64_MAX / 4, .queue_bytes = QUEUE_BYTES};
    struct blob_store *store = NULL;
    struct err err = {0};
    struct blob_upload *upload = NULL;
    assert_ok(blob_open(&config, &store, &err), &err);
    assert_int_equal(blob_upload_open(store, NULL, 10, &upload, &err), ERR_FULL);
    assert_holds(err.text, "must stay free");
    blob_close(&store);
}

static void a_full_queue_takes_no_more_and_says_when_it_does(void **state)
{
    struct blob_config config = {.directory = *state, .queue_bytes = 2 * MIB};
    struct blob_store *store = NULL;
    struct err err = {0};
    struct blob_upload *upload = NULL;
    struct pause pause = PAUSE_INIT;
    const uint64_t size = 40 * MIB;
    char *data = malloc(4 * MIB);
    int paused = 0;
    assert_ok(blob_open(&config, &store, &err), &err);
    assert_ok(blob_upload_open(store, NULL, size, &upload, &err), &err);
    blob_upload_on_room(upload, pause_end, &pause);
    for (uint64_t done = 0; done < size;) {
        size_t count = size - done < 4 * MIB ? (size_t)(size - done) : 4 * MIB;
        content_fill(4, done, data, count);
        int64_t taken = blob_upload_write(upload, data, count, &err);
        /* A chunk in the queue and one that is being filled: never all four. */
        assert_in_range(taken, 0, 4 * MIB);
        done += (uint64_t)taken;
        if ((size_t)taken < count) {
            paused++;
            pause_wait(&pause);
        }
    }
    assert_true(paused > 0);
    struct outcome outcome;
    outcome_init(&outcome);
    blob_upload_finish(upload, outcome_set, &outcome);
    assert_int_equal(outcome_wait(&outcome), 0);
    assert_true(store_holds(store, outcome.sha256, 4, size, &err));
    outcome_done(&outcome);
    free(data);
    blob_close(&store);
}

static void slow_uploads_do_not_keep_others_out(void **state)
{
    struct blob_config config = {.directory = *state, .queue_bytes = 4 * MIB};
    struct blob_store *store = NULL;
    struct err err = {0};
    struct blob_upload *slow[16];
    char sha256[BLOB_SHA256_SIZE];
    char *data = calloc(1, MIB);
    assert_ok(blob_open(&config, &store, &err), &err);
    /* Each holds an almost full chunk: four times the capacity of the queue. */
    for (size_t i = 0; i < 16; i++) {
        assert_ok(blob_upload_open(store, NULL, 10 * MIB, &slow[i], &err), &err);
        assert_int_equal(blob_upload_write(slow[i], data, MIB - 1, &err), MIB - 1);
    }
    assert_ok(store_put(store, 3, 9 * MIB, sha256, &err), &err);
    assert_true(store_holds(store, sha256, 3, 9 * MIB, &err));
    for (size_t i = 0; i < 16; i++) {
        blob_upload_abort(slow[i]);
    }
    free(data);
    blob_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(an_upload_is_bounded_and_its_hash_is_checked_for_form),
        test_with_directory(more_uploads_than_the_bound_are_refused_and_ended_ones_make_room),
        test_with_directory(below_the_space_that_is_to_stay_free_new_blobs_are_refused),
        test_with_directory(a_full_queue_takes_no_more_and_says_when_it_does),
        test_with_directory(slow_uploads_do_not_keep_others_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
