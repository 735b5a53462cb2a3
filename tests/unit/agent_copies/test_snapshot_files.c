/* The files of snapshots: after a restart, damaged, removed, on a full disk. */
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/support/test.h"
#include "tests/unit/agent_copies/snapshot_support.h"

static struct holding list[HOLDINGS_MAX];

static void write_text(const char *directory, const char *name, const char *text)
{
    char path[TEST_PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s/%s", directory, JOB, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void name_of(const struct holding *holding, char out[256])
{
    (void)snprintf(out, 256, "%lld-%lld-%lld-%s.blob", (long long)holding->version,
                   (long long)holding->unit, (long long)holding->generation, holding->sha256);
}

static void files_survive_the_store_and_damaged_ones_do_not(void **state)
{
    const char *directory = *state;
    struct snapshot_store *store = snapshots_new(directory);
    char name[256];
    snapshots_add_of(store, &this_job, 6, 3, 0, "whole");
    snapshots_add_of(store, &this_job, 6, 3, 1, "damaged");
    snapshots_add_of(store, &this_job, 6, 3, 2, "cut short");
    assert_int_equal(snapshot_bytes_written(store), 5 + 7 + 9);
    assert_int_equal(snapshots_files(directory), 3);
    snapshot_store_free(&store);
    const struct holding damaged = holding_of(&this_job, 6, 3, 1, "damaged");
    name_of(&damaged, name);
    write_text(directory, name, "damages");
    const struct holding shorter = holding_of(&this_job, 6, 3, 2, "cut short");
    name_of(&shorter, name);
    write_text(directory, name, "cut");
    write_text(directory, "3-9-6-temporary.XXXX", "left by a power cut");
    write_text(directory, "3-9-6.blob", "no hash");
    store = snapshots_new(directory);
    assert_int_equal(snapshot_holdings(store, list), 1);
    assert_int_equal(list[0].generation, 6);
    assert_int_equal(list[0].version, 3);
    assert_int_equal(list[0].unit, 0);
    assert_int_equal(list[0].bytes, 5);
    snapshots_expect(store, 3, 0, "whole");
    assert_int_equal(snapshots_files(directory), 1);
    assert_int_equal(snapshot_bytes_written(store), 0);
    snapshot_store_free(&store);
}

static void one_that_cannot_be_read_is_held_no_longer(void **state)
{
    struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(*state);
    char name[256];
    char read[4];
    struct err err = {0};
    snapshots_add(store, 3, 0, "lost");
    snapshots_add(store, 3, 1, "there");
    const struct holding lost = holding_of(&this_job, 1, 3, 0, "lost");
    name_of(&lost, name);
    const struct test_path directory = test_path_in(*state, JOB);
    assert_int_equal(unlink(test_path_in(directory.text, name).text), 0);
    const struct snapshot *snapshot = snapshot_get(store, JOB, 3, 0);
    const uint64_t before = snapshot_revision(store, NULL);
    assert_int_equal(snapshot_read(snapshot, 0, read, 4, &err), ERR_NOT_FOUND);
    snapshot_put_back(snapshot);
    assert_true(snapshot_revision(store, NULL) > before);
    assert_int_equal(snapshot_holdings(store, list), 1);
    snapshots_expect(store, 3, 1, "there");
}

static void what_could_be_read_forever_is_removed_unread(void **state)
{
    const char *directory = *state;
    struct snapshot_store *store = snapshots_new(directory);
    char name[256];
    char path[3][TEST_PATH_MAX];
    snapshots_add_of(store, &this_job, 6, 3, 3, "whole");
    snapshot_store_free(&store);
    for (int i = 0; i < 3; i++) {
        const struct holding holding = holding_of(&this_job, 6, 3, i, "away");
        name_of(&holding, name);
        (void)snprintf(path[i], sizeof(path[i]), "%s/%s/%s", directory, JOB, name);
    }
    assert_int_equal(mkfifo(path[0], 0600), 0);
    assert_int_equal(symlink("/dev/zero", path[1]), 0);
    FILE *file = fopen(path[2], "we");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(path[2], (off_t)BLOB_BYTES_MAX + 1),
                     0); /* a hole: no room on the disk */
    store = snapshots_new(directory);
    assert_int_equal(snapshot_holdings(store, list), 1);
    snapshots_expect(store, 3, 3, "whole");
    assert_int_equal(snapshots_files(directory), 1);
    snapshot_store_free(&store);
}

static void two_agents_cannot_share_a_directory(void **state)
{
    struct snapshot_store *store = snapshots_new(*state);
    struct snapshot_store *second = NULL;
    struct err err = {0};
    assert_int_equal(snapshot_store_new(*state, &second, &err), ERR_EXISTS);
    assert_holds(err.text, "another agent uses");
    snapshot_store_free(&store);
    assert_ok(snapshot_store_new(*state, &second, &err), &err);
    snapshot_store_free(&second);
}

static void a_full_disk_keeps_the_blob_in_memory(void **state)
{
    struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(*state);
    struct err err = {0};
    const struct holding holding = holding_of(&this_job, 1, 3, 0, "kept in memory");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit none = {.rlim_cur = 4, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    const int rc = snapshots_try(store, &holding, SNAPSHOT_REPLICA, "kept in memory", &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_ok(rc, &err);
    const struct snapshot *snapshot = snapshot_get(store, JOB, 3, 0);
    assert_non_null(snapshot);
    assert_non_null(snapshot->data);
    snapshot_put_back(snapshot);
    assert_int_equal(snapshots_files(*state), 0);
    assert_int_equal(snapshot_bytes_written(store), 0);
    snapshots_add(store, 3, 1, "written again");
    assert_int_equal(snapshots_files(*state), 1);
}

static int prepare(void **state)
{
    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    log_set_level(LOG_LEVEL_ERROR);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(files_survive_the_store_and_damaged_ones_do_not),
        test_with_directory(one_that_cannot_be_read_is_held_no_longer),
        test_with_directory(what_could_be_read_forever_is_removed_unread),
        test_with_directory(two_agents_cannot_share_a_directory),
        test_with_directory(a_full_disk_keeps_the_blob_in_memory),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
