/* The snapshots of a device, in memory and in files. */
#include "agent/copies/snapshot.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "net/hash.h"
#include "tests/support/test.h"

#define JOB "job_00000000000000000000000001"

static const struct job_id job = {JOB};
static const struct job_id other = {"job_00000000000000000000000002"};
static struct holding list[HOLDINGS_MAX];

static struct snapshot_store *make(const char *directory)
{
    struct snapshot_store *store = NULL;
    struct err err = {0};
    assert_ok(snapshot_store_new(directory, &store, &err), &err);
    return store;
}

static struct holding describe(const struct job_id *of, int64_t generation, int64_t version,
                               int64_t unit, const char *text)
{
    struct holding holding = {.job = *of,
                              .generation = generation,
                              .version = version,
                              .unit = unit,
                              .bytes = (int64_t)strlen(text)};
    sha256_text(text, strlen(text), holding.sha256);
    return holding;
}

static atomic_int notified;

static void tell(void *arg, int rc, const struct err *why)
{
    (void)why;
    atomic_store(&notified, 1);
    *(int *)arg = rc;
}

/* Keep a text and wait for its end. */
static int try_keep(struct snapshot_store *store, const struct holding *holding,
                    enum snapshot_origin origin, const char *text, struct err *err)
{
    int late = 0;
    const struct snapshot_waiter waiter = {.done = tell, .arg = &late};
    void *block = snapshot_block(store, strlen(text));
    assert_non_null(block);
    memcpy(block, text, strlen(text));
    const int rc = snapshot_keep(store, holding, origin, block, &waiter, err);
    if (rc != SNAPSHOT_LATER) {
        return rc;
    }
    snapshot_flush(store);
    return late;
}

static void keep_of(struct snapshot_store *store, const struct job_id *of, int64_t generation,
                    int64_t version, int64_t unit, const char *text)
{
    const struct holding holding = describe(of, generation, version, unit, text);
    struct err err = {0};
    assert_ok(try_keep(store, &holding, SNAPSHOT_OWN, text, &err), &err);
}

static void keep(struct snapshot_store *store, int64_t version, int64_t unit, const char *text)
{
    keep_of(store, &job, 1, version, unit, text);
}

static void expect(struct snapshot_store *store, int64_t version, int64_t unit, const char *text)
{
    char read[64];
    struct err err = {0};
    const struct snapshot *snapshot = snapshot_get(store, JOB, version, unit);
    assert_non_null(snapshot);
    assert_int_equal(snapshot->holding.bytes, strlen(text));
    assert_ok(snapshot_read(snapshot, 1, read, strlen(text) - 1, &err), &err);
    assert_memory_equal(read, text + 1, strlen(text) - 1);
    snapshot_put_back(snapshot);
}

/* Files of the job's directory. */
static size_t count_files(const char *directory)
{
    struct test_path path = test_path_in(directory, JOB);
    DIR *open = opendir(path.text);
    size_t count = 0;
    const struct dirent *entry;
    while (open && (entry = readdir(open))) {
        count += entry->d_name[0] != '.';
    }
    if (open) {
        (void)closedir(open);
    }
    return count;
}

/* ---- both ways ---- */

static void what_was_kept_is_found_with_its_hash(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = make(directories[i]);
        char hash[HASH_TEXT_SIZE];
        keep(store, 3, 1, "weights");
        sha256_text("weights", 7, hash);
        expect(store, 3, 1, "weights");
        assert_int_equal(snapshot_holdings(store, list), 1);
        assert_string_equal(list[0].sha256, hash);
        assert_int_equal(list[0].generation, 1);
        assert_null(snapshot_get(store, JOB, 3, 2));
        assert_null(snapshot_get(store, JOB, 4, 1));
        assert_null(snapshot_get(store, other.text, 3, 1));
    }
}

static void a_drop_lets_go_of_older_versions_of_that_job_only(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = make(directories[i]);
        keep(store, 3, 0, "a1");
        keep(store, 5, 0, "b1");
        keep_of(store, &other, 1, 1, 0, "c1");
        snapshot_drop(store, &(struct drop){.job = job, .below_version = 5});
        assert_int_equal(snapshot_holdings(store, list), 2);
        assert_int_equal(list[0].version, 5);
        assert_string_equal(list[1].job.text, other.text);
        snapshot_flush(store);
        assert_int_equal(count_files(*state), i);
        snapshot_drop(store, &(struct drop){.job = job, .below_version = INT64_MAX});
        assert_int_equal(snapshot_holdings(store, list), 1);
        snapshot_flush(store);
        assert_int_equal(count_files(*state), 0);
        snapshot_drop(store, &(struct drop){.job = other, .below_version = INT64_MAX});
    }
}

static void one_that_is_being_sent_survives_its_drop(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = make(directories[i]);
        char read[10];
        struct err err = {0};
        keep(store, 3, 0, "still here");
        const struct snapshot *snapshot = snapshot_get(store, JOB, 3, 0);
        snapshot_drop(store, &(struct drop){.job = job, .below_version = 4});
        assert_null(snapshot_get(store, JOB, 3, 0));
        assert_ok(snapshot_read(snapshot, 0, read, 10, &err), &err);
        assert_memory_equal(read, "still here", 10);
        snapshot_put_back(snapshot);
        snapshot_flush(store);
        assert_int_equal(count_files(*state), 0);
    }
}

static void one_that_is_kept_again_while_the_first_is_being_sent_stays(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = make(directories[i]);
        keep(store, 3, 0, "twice");
        const struct snapshot *snapshot = snapshot_get(store, JOB, 3, 0);
        snapshot_drop(store, &(struct drop){.job = job, .below_version = 4});
        keep(store, 3, 0, "twice");
        snapshot_put_back(snapshot);
        snapshot_flush(store);
        expect(store, 3, 0, "twice");
        assert_int_equal(count_files(*state), i);
        snapshot_drop(store, &(struct drop){.job = job, .below_version = 4});
        snapshot_flush(store);
        assert_int_equal(count_files(*state), 0);
    }
}

static void the_same_bytes_are_kept_under_another_version(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = make(directories[i]);
        int late = 0;
        const struct snapshot_waiter waiter = {.done = tell, .arg = &late};
        struct err err = {0};
        keep(store, 3, 0, "frozen");
        struct holding again = describe(&job, 1, 4, 0, "frozen");
        assert_true(snapshot_keep_same(store, &again, SNAPSHOT_REPLICA, &waiter, &err) >= 0);
        snapshot_flush(store);
        assert_int_equal(late, 0);
        again.unit = 1;
        assert_int_equal(snapshot_keep_same(store, &again, SNAPSHOT_REPLICA, &waiter, &err),
                         ERR_NOT_FOUND);
        snapshot_drop(store, &(struct drop){.job = job, .below_version = 4});
        expect(store, 4, 0, "frozen");
        assert_int_equal(snapshot_holdings(store, list), 1);
        snapshot_drop(store, &(struct drop){.job = job, .below_version = INT64_MAX});
    }
}

static void a_repeat_of_what_was_cut_off_holds_on_to_nothing(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = make(directories[i]);
        const struct snapshot_waiter waiter = {0};
        struct err err = {0};
        keep(store, 3, 0, "frozen");
        snapshot_cut(store, &job, 2, 3);
        const struct holding late = describe(&job, 1, 4, 0, "frozen");
        assert_int_equal(snapshot_keep_same(store, &late, SNAPSHOT_REPLICA, &waiter, &err),
                         ERR_STALE);
        snapshot_drop(store, &(struct drop){.job = job, .below_version = 4});
        snapshot_flush(store);
        assert_int_equal(snapshot_count_bytes(store, SNAPSHOT_OWN, false, &job, 1).held, 0);
        assert_int_equal(count_files(*state), 0);
    }
}

static void an_older_generation_replaces_nothing(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = make(NULL);
    struct err err = {0};
    const uint64_t before = snapshot_revision(store, NULL);
    keep_of(store, &job, 2, 3, 0, "two");
    keep_of(store, &job, 2, 3, 0, "second");
    keep_of(store, &job, 3, 3, 0, "three");
    const struct holding late = describe(&job, 2, 3, 0, "late");
    assert_int_equal(try_keep(store, &late, SNAPSHOT_OWN, "late", &err), ERR_STALE);
    expect(store, 3, 0, "three");
    assert_int_equal(snapshot_holdings(store, list), 1);
    assert_true(snapshot_revision(store, NULL) > before);
}

static void what_is_cut_off_goes_and_does_not_come_back(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = make(directories[i]);
        struct err err = {0};
        keep_of(store, &job, 1, 3, 0, "three");
        keep_of(store, &job, 1, 4, 0, "four");
        keep_of(store, &other, 1, 9, 0, "nine");
        snapshot_cut(store, &job, 2, 3);
        assert_int_equal(snapshot_holdings(store, list), 2);
        const struct holding late = describe(&job, 1, 5, 0, "five");
        assert_int_equal(try_keep(store, &late, SNAPSHOT_REPLICA, "five", &err), ERR_STALE);
        keep_of(store, &job, 2, 4, 0, "four again");
        expect(store, 4, 0, "four again");
        expect(store, 3, 0, "three");
        snapshot_flush(store);
        assert_int_equal(count_files(*state), i == 0 ? 0 : 2);
        snapshot_drop(store, &(struct drop){.job = other, .below_version = INT64_MAX});
    }
}

static void there_is_a_bound(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = make(NULL);
    struct err err = {0};
    for (int64_t unit = 0; unit < HOLDINGS_MAX; unit++) {
        keep(store, 1, unit, "x1");
    }
    const struct holding more = describe(&job, 1, 1, HOLDINGS_MAX, "x1");
    assert_int_equal(try_keep(store, &more, SNAPSHOT_OWN, "x1", &err), ERR_LIMIT);
    keep(store, 1, 7, "still replaced");
}

static void replicas_leave_room_for_own_ones(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = make(NULL);
    struct err err = {0};
    const int64_t most = HOLDINGS_MAX - UNITS_MAX;
    for (int64_t version = 1; version <= most; version++) {
        const struct holding holding = describe(&job, 1, version, 0, "x1");
        assert_ok(try_keep(store, &holding, SNAPSHOT_REPLICA, "x1", &err), &err);
    }
    const struct holding more = describe(&job, 1, most + 1, 0, "x1");
    assert_int_equal(try_keep(store, &more, SNAPSHOT_REPLICA, "x1", &err), ERR_LIMIT);
    keep(store, most + 1, 0, "own");
    const struct holding again = describe(&job, 1, 1, 0, "x2");
    assert_ok(try_keep(store, &again, SNAPSHOT_REPLICA, "x2", &err), &err);
}

static bool is_whole_now(struct snapshot_store *store)
{
    bool whole = false;
    (void)snapshot_revision(store, &whole);
    return whole;
}

static void a_version_is_whole_when_it_has_as_many_units_as_the_one_before(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = make(NULL);
    assert_false(is_whole_now(store));
    keep(store, 1, 9, "long ago");
    keep(store, 3, 0, "a1");
    keep(store, 3, 1, "b1");
    keep_of(store, &other, 1, 4, 0, "c1");
    assert_true(is_whole_now(store));
    assert_false(is_whole_now(store));
    keep(store, 5, 0, "a2");
    assert_false(is_whole_now(store));
    keep(store, 5, 1, "b2");
    keep(store, 6, 0, "a3");
    assert_true(is_whole_now(store)); /* 5 was, in between */
    snapshot_drop(store, &(struct drop){.job = job, .below_version = 5});
    assert_false(is_whole_now(store));
}

static void bytes_are_counted_by_origin_and_generation(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = make(NULL);
    struct err err = {0};
    const struct outbox_queue_config config = {.first = 0, .end = 1, .resume_version = 3};
    const struct round_mark mark = {.kinds = REPLICA_MARK(REPLICA_NEIGHBOR)};
    struct outbox_queue *queue AUTO(outbox_queue_free) = NULL;
    assert_ok(outbox_queue_new(&config, &queue, &err), &err);
    outbox_queue_take(queue, 5, &mark); /* version 4 was abandoned */
    const struct holding old = describe(&job, 1, 3, 0, "12345");
    const struct holding present = describe(&job, 2, 4, 0, "1234567");
    keep_of(store, &job, 2, 4, 1, "own");
    assert_ok(try_keep(store, &old, SNAPSHOT_REPLICA, "12345", &err), &err);
    assert_ok(try_keep(store, &present, SNAPSHOT_REPLICA, "1234567", &err), &err);
    struct snapshot_bytes bytes = snapshot_count_bytes(store, SNAPSHOT_REPLICA, true, &job, 2);
    assert_int_equal(bytes.held, 12);
    assert_int_equal(bytes.present, 7);
    const struct snapshot *sent = snapshot_get(store, JOB, 4, 0);
    assert_int_equal(snapshot_release(store, SNAPSHOT_REPLICA, &job, 2, queue), 1);
    bytes = snapshot_count_bytes(store, SNAPSHOT_REPLICA, true, &job, 2);
    assert_int_equal(bytes.held, 12);
    snapshot_put_back(sent);
    bytes = snapshot_count_bytes(store, SNAPSHOT_REPLICA, true, &job, 2);
    assert_int_equal(bytes.held, 5);
    bytes = snapshot_count_bytes(store, SNAPSHOT_OWN, true, &job, 2);
    assert_int_equal(bytes.held, 3);
}

static void a_block_comes_back_while_blocks_are_retained(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = make(NULL);
    snapshot_retain(store);
    void *first = snapshot_block(store, 1000);
    snapshot_block_free(store, first, 1000);
    assert_ptr_equal(snapshot_block(store, 1000), first);
    snapshot_block_free(store, first, 1000);
    snapshot_trim(store);
    void *second = snapshot_block(store, 1000);
    snapshot_block_free(store, second, 1000);
}

/* ---- files ---- */

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
    struct snapshot_store *store = make(directory);
    char name[256];
    keep_of(store, &job, 6, 3, 0, "whole");
    keep_of(store, &job, 6, 3, 1, "damaged");
    keep_of(store, &job, 6, 3, 2, "cut short");
    assert_int_equal(snapshot_bytes_written(store), 5 + 7 + 9);
    assert_int_equal(count_files(directory), 3);
    snapshot_store_free(&store);
    const struct holding damaged = describe(&job, 6, 3, 1, "damaged");
    name_of(&damaged, name);
    write_text(directory, name, "damages");
    const struct holding shorter = describe(&job, 6, 3, 2, "cut short");
    name_of(&shorter, name);
    write_text(directory, name, "cut");
    write_text(directory, "3-9-6-temporary.XXXX", "left by a power cut");
    write_text(directory, "3-9-6.blob", "no hash");
    store = make(directory);
    assert_int_equal(snapshot_holdings(store, list), 1);
    assert_int_equal(list[0].generation, 6);
    assert_int_equal(list[0].version, 3);
    assert_int_equal(list[0].unit, 0);
    assert_int_equal(list[0].bytes, 5);
    expect(store, 3, 0, "whole");
    assert_int_equal(count_files(directory), 1);
    assert_int_equal(snapshot_bytes_written(store), 0);
    snapshot_store_free(&store);
}

static void one_that_cannot_be_read_is_held_no_longer(void **state)
{
    struct snapshot_store *store AUTO(snapshot_store_free) = make(*state);
    char name[256];
    char read[4];
    struct err err = {0};
    keep(store, 3, 0, "lost");
    keep(store, 3, 1, "there");
    const struct holding lost = describe(&job, 1, 3, 0, "lost");
    name_of(&lost, name);
    const struct test_path directory = test_path_in(*state, JOB);
    assert_int_equal(unlink(test_path_in(directory.text, name).text), 0);
    const struct snapshot *snapshot = snapshot_get(store, JOB, 3, 0);
    const uint64_t before = snapshot_revision(store, NULL);
    assert_int_equal(snapshot_read(snapshot, 0, read, 4, &err), ERR_NOT_FOUND);
    snapshot_put_back(snapshot);
    assert_true(snapshot_revision(store, NULL) > before);
    assert_int_equal(snapshot_holdings(store, list), 1);
    expect(store, 3, 1, "there");
}

static void what_could_be_read_forever_is_removed_unread(void **state)
{
    const char *directory = *state;
    struct snapshot_store *store = make(directory);
    char name[256];
    char path[3][TEST_PATH_MAX];
    keep_of(store, &job, 6, 3, 3, "whole");
    snapshot_store_free(&store);
    for (int i = 0; i < 3; i++) {
        const struct holding holding = describe(&job, 6, 3, i, "away");
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
    store = make(directory);
    assert_int_equal(snapshot_holdings(store, list), 1);
    expect(store, 3, 3, "whole");
    assert_int_equal(count_files(directory), 1);
    snapshot_store_free(&store);
}

static void two_agents_cannot_share_a_directory(void **state)
{
    struct snapshot_store *store = make(*state);
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
    struct snapshot_store *store AUTO(snapshot_store_free) = make(*state);
    struct err err = {0};
    const struct holding holding = describe(&job, 1, 3, 0, "kept in memory");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit none = {.rlim_cur = 4, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    const int rc = try_keep(store, &holding, SNAPSHOT_REPLICA, "kept in memory", &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_ok(rc, &err);
    const struct snapshot *snapshot = snapshot_get(store, JOB, 3, 0);
    assert_non_null(snapshot);
    assert_non_null(snapshot->data);
    snapshot_put_back(snapshot);
    assert_int_equal(count_files(*state), 0);
    assert_int_equal(snapshot_bytes_written(store), 0);
    keep(store, 3, 1, "written again");
    assert_int_equal(count_files(*state), 1);
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
        test_with_directory(what_was_kept_is_found_with_its_hash),
        test_with_directory(a_drop_lets_go_of_older_versions_of_that_job_only),
        test_with_directory(one_that_is_being_sent_survives_its_drop),
        test_with_directory(one_that_is_kept_again_while_the_first_is_being_sent_stays),
        test_with_directory(the_same_bytes_are_kept_under_another_version),
        test_with_directory(a_repeat_of_what_was_cut_off_holds_on_to_nothing),
        cmocka_unit_test(an_older_generation_replaces_nothing),
        test_with_directory(what_is_cut_off_goes_and_does_not_come_back),
        cmocka_unit_test(there_is_a_bound),
        cmocka_unit_test(replicas_leave_room_for_own_ones),
        cmocka_unit_test(a_version_is_whole_when_it_has_as_many_units_as_the_one_before),
        cmocka_unit_test(bytes_are_counted_by_origin_and_generation),
        cmocka_unit_test(a_block_comes_back_while_blocks_are_retained),
        test_with_directory(files_survive_the_store_and_damaged_ones_do_not),
        test_with_directory(one_that_cannot_be_read_is_held_no_longer),
        test_with_directory(what_could_be_read_forever_is_removed_unread),
        test_with_directory(two_agents_cannot_share_a_directory),
        test_with_directory(a_full_disk_keeps_the_blob_in_memory),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
