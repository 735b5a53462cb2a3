/* Every write, sync, truncation and deletion of a scenario fails once, or is the last one before a
 * crash; then the store is opened again and has to hold all that it had promised. */
#include "tests/support/test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "coordinator/store/blobs.h"
#include "coordinator/store/state.h"
#include "tests/unit/coordinator_store/blob_support.h"
#include "tests/unit/coordinator_store/fault_vfs.h"

#define TURNS 5
#define ROWS 3
#define BLOBS 4
#define MIB ((uint64_t)1 << 20)
#define CALLS_MAX 400

static struct test_path round_directory(const char *directory, enum fault_kind kind, int64_t n)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "round-%d-%lld", (int)kind, (long long)n);
    return test_path_in(directory, name);
}

static void assert_sound(const char *directory, const char *name)
{
    assert_true(database_is_sound(test_path_in(directory, name).text));
}

/* ---- state.db ---- */

/* One turn: ROWS rows. The code of the first step that failed, with nothing left open. */
static int turn(struct state_store *store, int number)
{
    struct err err = {0};
    int rc = state_begin(store, &err);
    if (rc) {
        return rc;
    }
    for (int i = 0; i < ROWS && rc == 0; i++) {
        char id[32];
        char document[3000];
        (void)snprintf(id, sizeof(id), "job_%d_%d", number, i);
        memset(document, 'a' + number, sizeof(document));
        struct state_row row = {id, "", 1, 1, document, sizeof(document)};
        rc = state_put(store, STATE_JOBS, &row, &err);
    }
    if (rc) {
        state_rollback(store);
        return rc;
    }
    return state_commit(store, &err);
}

static bool count_row(void *arg, const struct state_row *row)
{
    int number = row->id[4] - '0';
    assert_int_equal(row->document_size, 3000);
    assert_int_equal(row->document[2999], 'a' + number);
    ((int *)arg)[number]++;
    return true;
}

static void check_turns(const char *directory, const int codes[TURNS])
{
    struct state_store *store = NULL;
    struct err err = {0};
    int rows[TURNS] = {0};
    assert_ok(state_open(directory, &store, &err), &err);
    assert_ok(state_list(store, STATE_JOBS, NULL, "", 100, false, count_row, rows, &err), &err);
    for (int i = 0; i < TURNS; i++) {
        if (codes[i] == 0) {
            assert_int_equal(rows[i], ROWS);
        } else {
            assert_true(rows[i] == 0 || rows[i] == ROWS);
        }
    }
    assert_int_equal(turn(store, 0), 0);
    state_close(&store);
    assert_sound(directory, "state.db");
}

/* false: the scenario has fewer calls than n. */
static bool state_round(const char *parent, enum fault_kind kind, int64_t n)
{
    struct test_path directory = round_directory(parent, kind, n);
    struct state_store *store = NULL;
    struct err err = {0};
    int codes[TURNS], failures = 0;
    assert_ok(state_open(directory.text, &store, &err), &err);
    fault_vfs_plan(kind, n);
    for (int i = 0; i < TURNS; i++) {
        codes[i] = turn(store, i);
        failures += codes[i] != 0;
    }
    bool reached = fault_vfs_calls() >= n;
    state_close(&store);
    fault_vfs_plan(FAULT_NONE, 0);
    if (reached && kind == FAULT_FULL) {
        /* The reserve takes it. */
        assert_int_equal(failures, 0);
    } else if (reached && kind == FAULT_ERROR) {
        assert_in_range(failures, 0, 1);
    } else if (reached) {
        assert_true(failures > 0);
    }
    check_turns(directory.text, codes);
    return reached;
}

static void state_rounds(const char *directory, enum fault_kind kind)
{
    int64_t n = 1;
    while (state_round(directory, kind, n)) {
        n++;
        assert_in_range(n, 1, CALLS_MAX);
    }
    assert_in_range(n, 2 * TURNS, CALLS_MAX);
}

static void no_committed_turn_is_lost_when_any_call_fails(void **state)
{
    state_rounds(*state, FAULT_ERROR);
}

static void every_turn_goes_through_when_the_disk_is_full_once(void **state)
{
    state_rounds(*state, FAULT_FULL);
}

static void no_committed_turn_is_lost_by_a_crash_at_any_call(void **state)
{
    state_rounds(*state, FAULT_CRASH);
}

/* ---- checkpoints.db ---- */

static uint64_t size_of(uint64_t seed)
{
    return seed == 3 ? MIB + 70000 : 70001;
}

static bool check_blob(void *arg, const char *sha256, uint64_t size)
{
    char expected[BLOB_SHA256_SIZE];
    struct err err = {0};
    for (uint64_t seed = 1; seed <= BLOBS; seed++) {
        content_sha256(seed, size_of(seed), expected);
        if (strcmp(expected, sha256) == 0) {
            assert_int_equal(size, size_of(seed));
            assert_true(store_holds(arg, sha256, seed, size, &err));
            return true;
        }
    }
    fail_msg("a blob that no thread wrote");
    return false;
}

/* Blobs that were promised are whole, and so are the others, if they are there. The first was
 * deleted. */
static void check_blobs(const char *directory, const int codes[BLOBS + 1])
{
    struct blob_store *store = store_open(directory);
    struct err err = {0};
    char sha256[BLOB_SHA256_SIZE];
    assert_non_null(store);
    for (uint64_t seed = 2; seed <= BLOBS; seed++) {
        content_sha256(seed, size_of(seed), sha256);
        assert_true(codes[seed] != 0 || store_holds(store, sha256, seed, size_of(seed), &err));
    }
    assert_ok(blob_sweep(store, check_blob, store, &err), &err);
    assert_ok(store_put(store, 1, size_of(1), sha256, &err), &err);
    assert_true(store_holds(store, sha256, 1, size_of(1), &err));
    blob_close(&store);
    assert_sound(directory, "checkpoints.db");
}

static bool blob_round(const char *parent, enum fault_kind kind, int64_t n)
{
    struct test_path directory = round_directory(parent, kind, n);
    struct blob_store *store = store_open(directory.text);
    struct err err = {0};
    char sha256[BLOB_SHA256_SIZE];
    int codes[BLOBS + 1] = {0}, failures = 0;
    assert_non_null(store);
    blob_drain(store);
    fault_vfs_plan(kind, n);
    for (uint64_t seed = 1; seed <= BLOBS; seed++) {
        codes[seed] = store_put(store, seed, size_of(seed), sha256, &err);
        failures += codes[seed] != 0;
        if (seed == 2) {
            content_sha256(1, size_of(1), sha256);
            blob_delete(store, sha256);
        }
    }
    blob_drain(store);
    bool reached = fault_vfs_calls() >= n;
    blob_close(&store);
    fault_vfs_plan(FAULT_NONE, 0);
    if (kind != FAULT_CRASH) {
        assert_int_equal(failures, 0);
    }
    check_blobs(directory.text, codes);
    return reached;
}

static void blob_rounds(const char *directory, enum fault_kind kind, int64_t stride)
{
    int64_t n = 1;
    while (blob_round(directory, kind, n)) {
        n += stride;
        assert_in_range(n, 1, CALLS_MAX);
    }
    assert_in_range(n, 20, CALLS_MAX);
}

static void every_upload_goes_through_when_one_call_fails(void **state)
{
    blob_rounds(*state, FAULT_ERROR, 1);
}

static void every_upload_goes_through_when_the_disk_is_full_for_a_moment(void **state)
{
    blob_rounds(*state, FAULT_FULL, 3);
}

static void no_finished_blob_is_lost_by_a_crash_at_any_call(void **state)
{
    blob_rounds(*state, FAULT_CRASH, 1);
}

static void an_upload_that_fills_the_disk_is_refused_and_the_others_are_not(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    struct blob_upload *large = NULL, *small = NULL;
    struct outcome outcome;
    char sha256[BLOB_SHA256_SIZE];
    char *data = malloc(4 * MIB);
    outcome_init(&outcome);
    content_fill(1, 0, data, 4 * MIB);
    assert_ok(store_put(store, 7, 2 * MIB, sha256, &err), &err);
    fault_vfs_limit((int64_t)(8 * MIB));
    assert_ok(blob_upload_open(store, NULL, 40 * MIB, &large, &err), &err);
    assert_ok(blob_upload_open(store, NULL, 4 * MIB, &small, &err), &err);
    assert_ok(blob_upload_write_all(small, data, MIB + 1, &err), &err);
    int rc = 0;
    for (int i = 0; i < 10 && rc == 0; i++) {
        rc = blob_upload_write_all(large, data, 4 * MIB, &err);
        blob_drain(store);
    }
    assert_int_equal(rc, ERR_FULL);
    assert_holds(err.text, "full");
    assert_ok(blob_upload_write_all(small, data + MIB + 1, 3 * MIB - 1, &err), &err);
    blob_upload_finish(small, outcome_set, &outcome);
    assert_int_equal(outcome_wait(&outcome), 0);
    assert_true(store_holds(store, outcome.sha256, 1, 4 * MIB, &err));
    outcome_done(&outcome);

    outcome_init(&outcome);
    blob_upload_finish(large, outcome_set, &outcome);
    assert_int_equal(outcome_wait(&outcome), ERR_FULL);
    assert_true(store_holds(store, sha256, 7, 2 * MIB, &err));
    fault_vfs_limit(0);
    assert_ok(store_put(store, 2, 6 * MIB, sha256, &err), &err);
    outcome_done(&outcome);
    free(data);
    blob_close(&store);
    assert_sound(*state, "checkpoints.db");
}

static void a_missing_row_is_found_when_it_is_read(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    char sha256[BLOB_SHA256_SIZE], byte;
    uint64_t size = 0;
    size_t count = 0;
    assert_ok(store_put(store, 1, 3 * MIB, sha256, &err), &err);
    blob_close(&store);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(test_path_in(*state, "checkpoints.db").text, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "DELETE FROM chunks WHERE id % 1048576 = 1;"
                                  "UPDATE chunks SET data = x'00' WHERE id % 1048576 = 2",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    store = store_open(*state);
    struct blob_reader *reader = NULL;
    assert_ok(blob_reader_open(store, sha256, &reader, &size, &err), &err);
    assert_ok(blob_read(reader, MIB - 1, &byte, 1, &count, &err), &err);
    assert_int_equal(blob_read(reader, MIB, &byte, 1, &count, &err), ERR_FORMAT);
    assert_holds(err.text, "chunk 1 is missing");
    assert_int_equal(blob_read(reader, 2 * MIB, &byte, 1, &count, &err), ERR_FORMAT);
    blob_reader_close(&reader);
    blob_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(no_committed_turn_is_lost_when_any_call_fails),
        test_with_directory(every_turn_goes_through_when_the_disk_is_full_once),
        test_with_directory(no_committed_turn_is_lost_by_a_crash_at_any_call),
        test_with_directory(every_upload_goes_through_when_one_call_fails),
        test_with_directory(every_upload_goes_through_when_the_disk_is_full_for_a_moment),
        test_with_directory(no_finished_blob_is_lost_by_a_crash_at_any_call),
        test_with_directory(an_upload_that_fills_the_disk_is_refused_and_the_others_are_not),
        test_with_directory(a_missing_row_is_found_when_it_is_read),
    };
    fault_vfs_install();
    log_set_level(LOG_LEVEL_ERROR); /* the warnings are expected here */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
