#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/store/blob_queue.h"
#include "coordinator/store/blobs.h"
#include "net/hash.h"
#include "tests/unit/coordinator_store/blob_support.h"

#define MIB ((uint64_t)1 << 20)
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static uint64_t file_size(const char *directory, const char *name)
{
    struct stat status;
    assert_int_equal(stat(test_path_in(directory, name).text, &status), 0);
    return (uint64_t)status.st_size;
}

static void a_blob_of_any_size_is_read_back_as_it_was_written(void **state)
{
    static const uint64_t sizes[] = {0, 1, 65536, MIB - 1, MIB, MIB + 1, 3 * MIB, 5 * MIB + 12345};
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    char sha256[8][BLOB_SHA256_SIZE], expected[BLOB_SHA256_SIZE];
    for (size_t i = 0; i < 8; i++) {
        assert_ok(store_put(store, i + 1, sizes[i], sha256[i], &err), &err);
        content_sha256(i + 1, sizes[i], expected);
        assert_string_equal(sha256[i], expected);
    }
    for (int reopened = 0; reopened < 2; reopened++) {
        for (size_t i = 0; i < 8; i++) {
            assert_true(store_holds(store, sha256[i], i + 1, sizes[i], &err));
        }
        blob_close(&store);
        store = store_open(*state);
    }
    assert_string_equal(sha256[0], EMPTY_SHA256);
    blob_close(&store);
}

static void a_read_may_begin_anywhere_and_cross_chunks(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    char sha256[BLOB_SHA256_SIZE];
    uint64_t size = 3 * MIB + 77, found = 0;
    assert_ok(store_put(store, 9, size, sha256, &err), &err);
    struct blob_reader *reader = NULL;
    assert_ok(blob_reader_open(store, sha256, &reader, &found, &err), &err);
    assert_int_equal(found, size);

    char *actual = malloc(2 * MIB), *expected = malloc(2 * MIB);
    size_t count = 0;
    static const uint64_t offsets[] = {0, 1, MIB - 1, MIB, 2 * MIB + 65535, 3 * MIB + 76};
    for (size_t i = 0; i < 6; i++) {
        assert_ok(blob_read(reader, offsets[i], actual, 2 * MIB, &count, &err), &err);
        assert_int_equal(count, size - offsets[i] < 2 * MIB ? size - offsets[i] : 2 * MIB);
        content_fill(9, offsets[i], expected, count);
        assert_memory_equal(actual, expected, count);
    }
    assert_ok(blob_read(reader, size, actual, 10, &count, &err), &err);
    assert_int_equal(count, 0);
    assert_ok(blob_read(reader, UINT64_MAX, actual, 10, &count, &err), &err);
    assert_int_equal(count, 0);
    free(actual);
    free(expected);
    blob_reader_close(&reader);
    blob_close(&store);
}

static void an_unwritten_blob_is_not_found(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct blob_reader *reader = NULL;
    uint64_t size = 0;
    assert_int_equal(store_stat(store, EMPTY_SHA256, &size, &err), ERR_NOT_FOUND);
    assert_int_equal(blob_reader_open(store, "no hash at all", &reader, &size, &err),
                     ERR_NOT_FOUND);
    assert_holds(err.text, "no hash at all");
    assert_null(reader);
    blob_close(&store);
}

static void a_blob_does_not_exist_before_it_is_finished(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct blob_upload *upload = NULL;
    char sha256[BLOB_SHA256_SIZE];
    char *data = malloc(2 * MIB);
    content_fill(3, 0, data, 2 * MIB);
    content_sha256(3, 2 * MIB, sha256);
    uint64_t size = 0;
    assert_ok(blob_upload_open(store, sha256, 2 * MIB, &upload, &err), &err);
    assert_ok(blob_upload_write_all(upload, data, 2 * MIB, &err), &err);
    assert_int_equal(store_stat(store, sha256, &size, &err), ERR_NOT_FOUND);
    struct outcome outcome;
    outcome_init(&outcome);
    blob_upload_finish(upload, outcome_set, &outcome);
    assert_int_equal(outcome_wait(&outcome), 0);
    assert_int_equal(outcome.size, 2 * MIB);
    assert_ok(store_stat(store, sha256, &size, &err), &err);
    assert_int_equal(size, 2 * MIB);
    outcome_done(&outcome);
    free(data);
    blob_close(&store);
}

static void content_with_another_hash_or_size_is_rejected(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct blob_upload *upload = NULL;
    assert_ok(blob_upload_open(store, EMPTY_SHA256, 100, &upload, &err), &err);
    assert_ok(blob_upload_write_all(upload, "not empty", 9, &err), &err);
    struct outcome outcome;
    outcome_init(&outcome);
    blob_upload_finish(upload, outcome_set, &outcome);
    assert_int_equal(outcome_wait(&outcome), ERR_FORMAT);
    assert_holds(outcome.err.text, EMPTY_SHA256);
    assert_holds(outcome.err.text, outcome.sha256);
    uint64_t size = 0;
    assert_int_equal(store_stat(store, EMPTY_SHA256, &size, &err), ERR_NOT_FOUND);
    assert_int_equal(store_stat(store, outcome.sha256, &size, &err), ERR_NOT_FOUND);
    outcome_done(&outcome);
    blob_close(&store);
}

static void an_abandoned_upload_leaves_no_rows(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct blob_upload *upload = NULL;
    char sha256[BLOB_SHA256_SIZE];
    char *data = calloc(1, 4 * MIB);
    assert_ok(blob_upload_open(store, NULL, 8 * MIB, &upload, &err), &err);
    assert_ok(blob_upload_write_all(upload, data, 4 * MIB, &err), &err);
    blob_upload_abort(upload);
    blob_drain(store);
    uint64_t before = file_size(*state, "checkpoints.db");
    /* The space is used again. */
    for (uint64_t seed = 1; seed < 6; seed++) {
        assert_ok(blob_upload_open(store, NULL, 8 * MIB, &upload, &err), &err);
        assert_ok(blob_upload_write_all(upload, data, 4 * MIB, &err), &err);
        blob_upload_abort(upload);
        blob_drain(store);
    }
    assert_in_range(file_size(*state, "checkpoints.db"), 0, before + 5 * MIB);
    struct blob_statistics statistics;
    blob_statistics(store, &statistics);
    assert_int_equal(statistics.blobs, 0);
    assert_int_equal(statistics.bytes, 0);
    assert_ok(store_put(store, 1, MIB, sha256, &err), &err);
    free(data);
    blob_close(&store);
}

static void uploads_that_are_open_when_the_store_closes_are_dropped(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct blob_upload *open_upload = NULL, *finished = NULL;
    char *data = calloc(1, 3 * MIB);
    struct outcome outcome;
    outcome_init(&outcome);
    assert_ok(blob_upload_open(store, NULL, 8 * MIB, &open_upload, &err), &err);
    assert_ok(blob_upload_write_all(open_upload, data, 3 * MIB, &err), &err);
    assert_ok(blob_upload_open(store, NULL, 8 * MIB, &finished, &err), &err);
    assert_ok(blob_upload_write_all(finished, data, 3 * MIB, &err), &err);
    blob_upload_finish(finished, outcome_set, &outcome);
    blob_close(&store);
    assert_true(outcome.is_done);
    assert_int_equal(outcome.code, 0);

    store = store_open(*state);
    struct blob_statistics statistics;
    blob_statistics(store, &statistics);
    assert_int_equal(statistics.blobs, 1);
    assert_int_equal(statistics.bytes, 3 * MIB);
    uint64_t size = 0;
    assert_ok(store_stat(store, outcome.sha256, &size, &err), &err);
    outcome_done(&outcome);
    free(data);
    blob_close(&store);
}

static void the_same_content_is_stored_once(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    char first[BLOB_SHA256_SIZE], again[BLOB_SHA256_SIZE];
    assert_ok(store_put(store, 5, 4 * MIB, first, &err), &err);
    blob_drain(store);
    uint64_t before = file_size(*state, "checkpoints.db");
    for (int i = 0; i < 5; i++) {
        assert_ok(store_put(store, 5, 4 * MIB, again, &err), &err);
        assert_string_equal(first, again);
        blob_drain(store);
    }
    struct blob_statistics statistics;
    blob_statistics(store, &statistics);
    assert_int_equal(statistics.blobs, 1);
    assert_int_equal(statistics.bytes, 4 * MIB);
    assert_in_range(file_size(*state, "checkpoints.db"), 0, before + 5 * MIB);
    assert_true(store_holds(store, first, 5, 4 * MIB, &err));
    blob_close(&store);
}

static void the_same_content_from_two_uploads_at_a_time_is_stored_once(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct blob_upload *upload[2];
    struct outcome outcome[2];
    char *data = malloc(3 * MIB);
    content_fill(8, 0, data, 3 * MIB);
    for (int i = 0; i < 2; i++) {
        outcome_init(&outcome[i]);
        assert_ok(blob_upload_open(store, NULL, 3 * MIB, &upload[i], &err), &err);
    }
    for (uint64_t done = 0; done < 3 * MIB; done += MIB / 2) {
        for (int i = 0; i < 2; i++) {
            assert_ok(blob_upload_write_all(upload[i], data + done, MIB / 2, &err), &err);
        }
    }
    for (int i = 0; i < 2; i++) {
        blob_upload_finish(upload[i], outcome_set, &outcome[i]);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(outcome_wait(&outcome[i]), 0);
    }
    blob_drain(store);
    struct blob_statistics statistics;
    blob_statistics(store, &statistics);
    assert_int_equal(statistics.blobs, 1);
    assert_int_equal(statistics.bytes, 3 * MIB);
    assert_true(store_holds(store, outcome[1].sha256, 8, 3 * MIB, &err));
    for (int i = 0; i < 2; i++) {
        outcome_done(&outcome[i]);
    }
    free(data);
    blob_close(&store);
}

static void a_deleted_blob_is_gone_and_its_open_reader_fails(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    char sha256[BLOB_SHA256_SIZE], other[BLOB_SHA256_SIZE], byte;
    uint64_t size = 0;
    size_t count = 0;
    assert_ok(store_put(store, 1, 3 * MIB, sha256, &err), &err);
    assert_ok(store_put(store, 2, 3 * MIB, other, &err), &err);
    struct blob_reader *reader = NULL;
    assert_ok(blob_reader_open(store, sha256, &reader, &size, &err), &err);
    assert_ok(blob_read(reader, 0, &byte, 1, &count, &err), &err);
    blob_delete(store, sha256);
    blob_delete(store, "unknown");
    blob_drain(store);
    assert_int_equal(blob_read(reader, MIB, &byte, 1, &count, &err), ERR_NOT_FOUND);
    assert_holds(err.text, "deleted");
    blob_reader_close(&reader);
    assert_int_equal(store_stat(store, sha256, &size, &err), ERR_NOT_FOUND);
    assert_true(store_holds(store, other, 2, 3 * MIB, &err));
    struct blob_statistics statistics;
    blob_statistics(store, &statistics);
    assert_int_equal(statistics.blobs, 1);
    assert_int_equal(statistics.bytes, 3 * MIB);
    /* The same content may come back. */
    assert_ok(store_put(store, 1, 3 * MIB, sha256, &err), &err);
    assert_true(store_holds(store, sha256, 1, 3 * MIB, &err));
    blob_close(&store);
}

static void the_space_of_deleted_blobs_goes_back_to_the_file_system(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    char sha256[12][BLOB_SHA256_SIZE];
    for (size_t i = 0; i < 12; i++) {
        assert_ok(store_put(store, i, 5 * MIB, sha256[i], &err), &err);
    }
    assert_in_range(file_size(*state, "checkpoints.db"), 60 * MIB, 62 * MIB);
    for (size_t i = 0; i < 12; i++) {
        if (i != 11) {
            blob_delete(store, sha256[i]);
        }
    }
    blob_drain(store);
    assert_in_range(file_size(*state, "checkpoints.db"), 5 * MIB, 22 * MIB);
    assert_true(store_holds(store, sha256[11], 11, 5 * MIB, &err));
    blob_close(&store);
}

static bool keep_named(void *arg, const char *sha256, uint64_t size)
{
    (void)size;
    return strcmp(arg, sha256) == 0;
}

static void a_sweep_visits_every_blob_and_removes_unreferenced_ones(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    char kept[BLOB_SHA256_SIZE];
    struct outcome outcome[600];
    for (size_t i = 0; i < 600; i++) {
        struct blob_upload *upload = NULL;
        int rc;
        outcome_init(&outcome[i]);
        while ((rc = blob_upload_open(store, NULL, 100, &upload, &err)) == ERR_LIMIT) {
            blob_drain(store);
        }
        assert_ok(rc, &err);
        assert_ok(blob_upload_write_all(upload, &i, sizeof(i), &err), &err);
        blob_upload_finish(upload, outcome_set, &outcome[i]);
    }
    for (size_t i = 0; i < 600; i++) {
        assert_int_equal(outcome_wait(&outcome[i]), 0);
        memcpy(kept, outcome[i].sha256, sizeof(kept));
        outcome_done(&outcome[i]);
    }
    struct blob_statistics statistics;
    blob_statistics(store, &statistics);
    assert_int_equal(statistics.blobs, 600);
    assert_ok(blob_sweep(store, keep_named, kept, &err), &err);
    blob_drain(store);
    blob_statistics(store, &statistics);
    assert_int_equal(statistics.blobs, 1);
    uint64_t size = 0;
    assert_ok(store_stat(store, kept, &size, &err), &err);
    blob_close(&store);
}

static void a_second_store_on_the_same_directory_is_refused_by_name(void **state)
{
    struct blob_store *store = store_open(*state), *second = NULL;
    struct blob_config config = {.directory = *state, .queue_bytes = QUEUE_BYTES};
    struct err err = {0};
    char process[64];
    (void)snprintf(process, sizeof(process), "(process %ld)", (long)getpid());
    assert_int_equal(blob_open(&config, &second, &err), ERR_STATE);
    assert_null(second);
    assert_holds(err.text, "in use by another coordinator");
    assert_holds(err.text, process);
    blob_close(&store);
    assert_ok(blob_open(&config, &second, &err), &err);
    blob_close(&second);
}

static void every_byte_is_written_to_the_file_once(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    char sha256[BLOB_SHA256_SIZE];
    struct blob_statistics statistics;
    for (uint64_t seed = 0; seed < 8; seed++) {
        assert_ok(store_put(store, seed, 5 * MIB, sha256, &err), &err);
    }
    blob_statistics(store, &statistics);
    assert_int_equal(statistics.bytes_written, 40 * MIB);
    assert_int_equal(statistics.bytes, 40 * MIB);
    assert_in_range(file_size(*state, "checkpoints.db"), 40 * MIB, 41 * MIB);
    assert_in_range(file_size(*state, "checkpoints.db-journal"), 0, 2 * MIB);
    blob_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_blob_of_any_size_is_read_back_as_it_was_written),
        test_with_directory(a_read_may_begin_anywhere_and_cross_chunks),
        test_with_directory(an_unwritten_blob_is_not_found),
        test_with_directory(a_blob_does_not_exist_before_it_is_finished),
        test_with_directory(content_with_another_hash_or_size_is_rejected),
        test_with_directory(an_abandoned_upload_leaves_no_rows),
        test_with_directory(uploads_that_are_open_when_the_store_closes_are_dropped),
        test_with_directory(the_same_content_is_stored_once),
        test_with_directory(the_same_content_from_two_uploads_at_a_time_is_stored_once),
        test_with_directory(a_deleted_blob_is_gone_and_its_open_reader_fails),
        test_with_directory(the_space_of_deleted_blobs_goes_back_to_the_file_system),
        test_with_directory(a_sweep_visits_every_blob_and_removes_unreferenced_ones),
        test_with_directory(a_second_store_on_the_same_directory_is_refused_by_name),
        test_with_directory(every_byte_is_written_to_the_file_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
