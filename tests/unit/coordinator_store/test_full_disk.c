/* A disk that is really full: a small tmpfs in a mount namespace of its own. Needs root; exits 77
 * elsewhere. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "coordinator/store/state.h"
#include "tests/unit/coordinator_store/blob_support.h"

#define MIB ((uint64_t)1 << 20)
#define DOCUMENT_BYTES 50000

static int mount_disk(void **state, const char *options)
{
    if (test_directory_setup(state)) {
        return -1;
    }
    return mount("none", *state, "tmpfs", 0, options);
}

static int mount_24_mib(void **state)
{
    return mount_disk(state, "size=24m,mode=0700");
}

static int mount_48_mib(void **state)
{
    return mount_disk(state, "size=48m,mode=0700");
}

static int unmount_disk(void **state)
{
    int rc = umount2(*state, MNT_DETACH);
    return test_directory_teardown(state) || rc;
}

/* Fill the rest of the disk. */
static void fill(const char *directory)
{
    int fd = open(test_path_in(directory, "filler").text, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(fd >= 0);
    char page[4096];
    memset(page, 'f', sizeof(page));
    while (write(fd, page, sizeof(page)) == (ssize_t)sizeof(page)) {
    }
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(close(fd), 0);
}

static void unfill(const char *directory)
{
    assert_int_equal(unlink(test_path_in(directory, "filler").text), 0);
}

static bool reserve_exists(const char *directory)
{
    return access(test_path_in(directory, "state.reserve").text, F_OK) == 0;
}

static int put_one(struct state_store *store, int number, struct err *err)
{
    static char document[DOCUMENT_BYTES];
    char id[32];
    (void)snprintf(id, sizeof(id), "job_%06d", number);
    memset(document, 'd', sizeof(document));
    struct state_row row = {id, "", 1, 1, document, sizeof(document)};
    int rc = state_begin(store, err);
    if (rc) {
        return rc;
    }
    rc = state_put(store, STATE_JOBS, &row, err);
    rc = rc ? rc : state_commit(store, err);
    if (state_in_transaction(store)) {
        state_rollback(store);
    }
    return rc;
}

static bool count_row(void *arg, const struct state_row *row)
{
    assert_int_equal(row->document_size, DOCUMENT_BYTES);
    ++*(int *)arg;
    return true;
}

static int count_rows(struct state_store *store)
{
    struct err err = {0};
    int count = 0;
    assert_ok(state_list(store, STATE_JOBS, NULL, "", 100000, false, count_row, &count, &err),
              &err);
    return count;
}

static void the_reserve_keeps_the_state_writable_on_a_full_disk(void **state)
{
    struct state_store *store = NULL;
    struct err err = {0};
    assert_ok(state_open(*state, &store, &err), &err);
    assert_ok(put_one(store, 0, &err), &err);
    assert_true(reserve_exists(*state));
    fill(*state);
    int written = 1, rc = 0;
    while ((rc = put_one(store, written, &err)) == 0 && written < 10000) {
        written++;
    }
    /* Megabytes more went in, by the reserve; then it is over, with the right word. */
    assert_int_equal(rc, ERR_FULL);
    assert_true((uint64_t)written * DOCUMENT_BYTES > 4 * MIB);
    assert_false(reserve_exists(*state));
    assert_int_equal(count_rows(store), written);
    /* Telemetry waits for better times. */
    assert_ok(state_metric(store, "j", 1, "loss", 1.5, &err), &err);
    while ((rc = state_flush(store, &err)) == 0) {
        for (int64_t step = 0; step < 1000; step++) {
            assert_ok(state_metric(store, "j", written * 1000 + step, "loss", 1.5, &err), &err);
        }
        written++;
    }
    assert_int_equal(rc, ERR_FULL);
    unfill(*state);
    assert_ok(state_flush(store, &err), &err);
    assert_true(reserve_exists(*state));
    int rows = count_rows(store);
    assert_ok(put_one(store, 99999, &err), &err);
    state_close(&store);
    assert_ok(state_open(*state, &store, &err), &err);
    assert_int_equal(count_rows(store), rows + 1);
    state_close(&store);
}

static void a_coordinator_starts_on_a_full_disk_and_can_delete(void **state)
{
    struct state_store *store = NULL;
    struct err err = {0};
    assert_ok(state_open(*state, &store, &err), &err);
    for (int i = 0; i < 20; i++) {
        assert_ok(put_one(store, i, &err), &err);
    }
    state_close(&store);
    assert_int_equal(unlink(test_path_in(*state, "state.reserve").text), 0);
    fill(*state);
    /* The first write needs a journal that is not there: without space there can be none. */
    assert_int_equal(state_open(*state, &store, &err), 0);
    assert_false(reserve_exists(*state));
    assert_int_equal(count_rows(store), 20);
    assert_int_equal(put_one(store, 20, &err), ERR_FULL);
    state_close(&store);
    unfill(*state);
    /* With the reserve of the earlier run the same start can write. */
    assert_ok(state_open(*state, &store, &err), &err);
    state_close(&store);
    fill(*state);
    assert_ok(state_open(*state, &store, &err), &err);
    assert_ok(state_begin(store, &err), &err);
    assert_ok(state_delete(store, STATE_JOBS, "job_000003", &err), &err);
    assert_ok(state_commit(store, &err), &err);
    assert_int_equal(count_rows(store), 19);
    assert_false(reserve_exists(*state));
    state_close(&store);
}

static void a_commit_on_a_full_disk_is_held_with_all_its_changes_until_there_is_room(void **state)
{
    struct state_store *store = NULL;
    struct err err = {0};
    assert_ok(state_open(*state, &store, &err), &err);
    assert_ok(put_one(store, 0, &err), &err);
    assert_ok(state_check_room(store, 4 * MIB, &err), &err);
    fill(*state);
    assert_int_equal(state_check_room(store, 4 * MIB, &err), ERR_FULL);
    assert_holds(err.text, "must stay free");
    int written = 1;
    while (put_one(store, written, &err) == 0) {
        written++; /* the reserve is used up */
    }
    static char document[DOCUMENT_BYTES];
    memset(document, 'd', sizeof(document));
    struct state_row row = {"job_900000", "", 1, 1, document, sizeof(document)};
    assert_ok(state_begin(store, &err), &err);
    assert_ok(state_put(store, STATE_JOBS, &row, &err), &err);
    for (int attempt = 0; attempt < 3; attempt++) {
        assert_int_equal(state_commit(store, &err), ERR_FULL);
        assert_true(state_in_transaction(store));
        assert_int_equal(count_rows(store), written);
        row.id = attempt == 0 ? "job_900001" : "job_900002"; /* held transactions take more */
        assert_ok(state_put(store, STATE_JOBS, &row, &err), &err);
        assert_ok(state_delete(store, STATE_JOBS, "job_000000", &err), &err);
    }
    unfill(*state);
    assert_ok(state_commit(store, &err), &err);
    assert_false(state_in_transaction(store));
    assert_int_equal(count_rows(store), written - 1 + 3);
    assert_ok(put_one(store, 0, &err), &err);
    state_close(&store);
    assert_ok(state_open(*state, &store, &err), &err);
    assert_int_equal(count_rows(store), written + 3);
    state_close(&store);
}

static void users_get_no_room_while_the_reserve_is_missing(void **state)
{
    struct state_store *store = NULL;
    struct err err = {0};
    assert_ok(state_open(*state, &store, &err), &err);
    assert_ok(put_one(store, 0, &err), &err);
    assert_ok(state_check_room(store, 10 * MIB, &err), &err);
    assert_int_equal(state_check_room(store, 30 * MIB, &err), ERR_FULL);
    fill(*state);
    int written = 1;
    while (reserve_exists(*state)) {
        assert_ok(put_one(store, written++, &err), &err);
    }
    unfill(*state);
    /* Most of the 24 MiB are free: enough for the reserve to be missing beside 4, too few
     * beside 17. */
    assert_ok(state_check_room(store, 4 * MIB, &err), &err);
    assert_int_equal(state_check_room(store, 17 * MIB, &err), ERR_FULL);
    assert_holds(err.text, "more than --min-free");
    state_close(&store);
}

static void a_blob_that_does_not_fit_is_refused_and_the_stored_ones_stay(void **state)
{
    struct blob_store *store = store_open(*state);
    struct err err = {0};
    char kept[BLOB_SHA256_SIZE], sha256[BLOB_SHA256_SIZE];
    assert_non_null(store);
    assert_ok(store_put(store, 1, 5 * MIB, kept, &err), &err);
    assert_int_equal(store_put(store, 2, 60 * MIB, sha256, &err), ERR_FULL);
    blob_drain(store);
    assert_true(store_holds(store, kept, 1, 5 * MIB, &err));
    assert_ok(store_put(store, 3, 5 * MIB, sha256, &err), &err);
    assert_true(store_holds(store, sha256, 3, 5 * MIB, &err));
    struct blob_statistics statistics;
    blob_statistics(store, &statistics);
    assert_int_equal(statistics.blobs, 2);
    blob_close(&store);
}

static void started_uploads_may_use_half_of_the_reserved_space(void **state)
{
    struct blob_config config = {
        .directory = *state, .min_free_bytes = 12 * MIB, .queue_bytes = QUEUE_BYTES};
    struct blob_store *store = NULL;
    struct err err = {0};
    struct blob_upload *upload = NULL, *another = NULL;
    struct outcome outcome;
    char *data = calloc(1, 10 * MIB);
    assert_ok(blob_open(&config, &store, &err), &err);
    assert_ok(blob_upload_open(store, NULL, 60 * MIB, &upload, &err), &err);
    /* 24 MiB: 10 are written, fewer than 12 + 2 stay free. */
    for (int i = 0; i < 13; i++) {
        assert_ok(blob_upload_write_all(upload, data, MIB, &err), &err);
    }
    blob_drain(store);
    assert_int_equal(blob_upload_open(store, NULL, 10, &another, &err), ERR_FULL);
    assert_holds(err.text, "must stay free");
    outcome_init(&outcome);
    blob_upload_finish(upload, outcome_set, &outcome);
    assert_int_equal(outcome_wait(&outcome), 0);
    /* Deleted blobs make room for new ones, whether or not the file has shrunk. */
    blob_delete(store, outcome.sha256);
    blob_drain(store);
    assert_ok(blob_upload_open(store, NULL, 60 * MIB, &upload, &err), &err);
    int rc = 0;
    for (int i = 0; i < 40 && rc == 0; i++) {
        rc = blob_upload_write_all(upload, data, MIB, &err);
        blob_drain(store);
    }
    assert_int_equal(rc, ERR_FULL);
    assert_holds(err.text, "bytes free");
    blob_upload_abort(upload);
    outcome_done(&outcome);
    free(data);
    blob_close(&store);
}

static void uploads_of_people_leave_all_that_is_to_stay_free(void **state)
{
    struct blob_config config = {
        .directory = *state, .min_free_bytes = 12 * MIB, .queue_bytes = QUEUE_BYTES};
    struct blob_store *store = NULL;
    struct err err = {0};
    struct blob_upload *upload = NULL;
    struct blob_statistics statistics;
    char *data = calloc(1, 4 * MIB);
    assert_ok(blob_open(&config, &store, &err), &err);
    assert_ok(blob_upload_open(store, NULL, 60 * MIB, &upload, &err), &err);
    assert_int_equal(blob_upload_keep_free(upload, 13 * MIB, &err), ERR_FULL);
    assert_holds(err.text, "beside the 13631488 of the upload");
    blob_upload_abort(upload);
    assert_ok(blob_upload_open(store, NULL, 60 * MIB, &upload, &err), &err);
    assert_ok(blob_upload_keep_free(upload, 8 * MIB, &err), &err);
    int rc = 0, written = 0;
    for (; written < 15 && rc == 0; written++) {
        rc = blob_upload_write_all(upload, data, 4 * MIB, &err);
        blob_statistics(store, &statistics);
        assert_true(statistics.free_bytes >= 12 * MIB);
    }
    assert_true(written >= 3);
    assert_int_equal(rc, ERR_FULL);
    assert_holds(err.text, "must stay free");
    blob_upload_abort(upload);
    free(data);
    blob_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_reserve_keeps_the_state_writable_on_a_full_disk,
                                        mount_48_mib, unmount_disk),
        cmocka_unit_test_setup_teardown(a_coordinator_starts_on_a_full_disk_and_can_delete,
                                        mount_24_mib, unmount_disk),
        cmocka_unit_test_setup_teardown(
            a_commit_on_a_full_disk_is_held_with_all_its_changes_until_there_is_room, mount_48_mib,
            unmount_disk),
        cmocka_unit_test_setup_teardown(users_get_no_room_while_the_reserve_is_missing,
                                        mount_24_mib, unmount_disk),
        cmocka_unit_test_setup_teardown(
            a_blob_that_does_not_fit_is_refused_and_the_stored_ones_stay, mount_24_mib,
            unmount_disk),
        cmocka_unit_test_setup_teardown(uploads_of_people_leave_all_that_is_to_stay_free,
                                        mount_24_mib, unmount_disk),
        cmocka_unit_test_setup_teardown(started_uploads_may_use_half_of_the_reserved_space,
                                        mount_24_mib, unmount_disk),
    };
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
        (void)fprintf(stderr, "skipped: no mount namespace of its own: %s\n", strerror(errno));
        return 77;
    }
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
