/* The snapshots of a device, in memory and in files. */
#include "net/hash.h"
#include "tests/support/test.h"
#include "tests/unit/agent_copies/snapshot_support.h"

static struct holding list[HOLDINGS_MAX];

static void what_was_kept_is_found_with_its_hash(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(directories[i]);
        char hash[HASH_TEXT_SIZE];
        snapshots_add(store, 3, 1, "weights");
        sha256_text("weights", 7, hash);
        snapshots_expect(store, 3, 1, "weights");
        assert_int_equal(snapshot_holdings(store, list), 1);
        assert_string_equal(list[0].sha256, hash);
        assert_int_equal(list[0].generation, 1);
        assert_null(snapshot_get(store, JOB, 3, 2));
        assert_null(snapshot_get(store, JOB, 4, 1));
        assert_null(snapshot_get(store, other_job.text, 3, 1));
    }
}

static void a_drop_lets_go_of_older_versions_of_that_job_only(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(directories[i]);
        snapshots_add(store, 3, 0, "a1");
        snapshots_add(store, 5, 0, "b1");
        snapshots_add_of(store, &other_job, 1, 1, 0, "c1");
        snapshot_drop(store, &(struct drop){.job = this_job, .below_version = 5});
        assert_int_equal(snapshot_holdings(store, list), 2);
        assert_int_equal(list[0].version, 5);
        assert_string_equal(list[1].job.text, other_job.text);
        snapshot_flush(store);
        assert_int_equal(snapshots_files(*state), i);
        snapshot_drop(store, &(struct drop){.job = this_job, .below_version = INT64_MAX});
        assert_int_equal(snapshot_holdings(store, list), 1);
        snapshot_flush(store);
        assert_int_equal(snapshots_files(*state), 0);
        snapshot_drop(store, &(struct drop){.job = other_job, .below_version = INT64_MAX});
    }
}

static void one_that_is_being_sent_survives_its_drop(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(directories[i]);
        char read[10];
        struct err err = {0};
        snapshots_add(store, 3, 0, "still here");
        const struct snapshot *snapshot = snapshot_get(store, JOB, 3, 0);
        snapshot_drop(store, &(struct drop){.job = this_job, .below_version = 4});
        assert_null(snapshot_get(store, JOB, 3, 0));
        assert_ok(snapshot_read(snapshot, 0, read, 10, &err), &err);
        assert_memory_equal(read, "still here", 10);
        snapshot_put_back(snapshot);
        snapshot_flush(store);
        assert_int_equal(snapshots_files(*state), 0);
    }
}

static void one_that_is_kept_again_while_the_first_is_being_sent_stays(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(directories[i]);
        snapshots_add(store, 3, 0, "twice");
        const struct snapshot *snapshot = snapshot_get(store, JOB, 3, 0);
        snapshot_drop(store, &(struct drop){.job = this_job, .below_version = 4});
        snapshots_add(store, 3, 0, "twice");
        snapshot_put_back(snapshot);
        snapshot_flush(store);
        snapshots_expect(store, 3, 0, "twice");
        assert_int_equal(snapshots_files(*state), i);
        snapshot_drop(store, &(struct drop){.job = this_job, .below_version = 4});
        snapshot_flush(store);
        assert_int_equal(snapshots_files(*state), 0);
    }
}

static void the_same_bytes_are_kept_under_another_version(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(directories[i]);
        int late = 0;
        const struct snapshot_waiter waiter = {.done = snapshots_note, .arg = &late};
        struct err err = {0};
        snapshots_add(store, 3, 0, "frozen");
        struct holding again = holding_of(&this_job, 1, 4, 0, "frozen");
        assert_true(snapshot_keep_same(store, &again, SNAPSHOT_REPLICA, &waiter, &err) >= 0);
        snapshot_flush(store);
        assert_int_equal(late, 0);
        again.unit = 1;
        assert_int_equal(snapshot_keep_same(store, &again, SNAPSHOT_REPLICA, &waiter, &err),
                         ERR_NOT_FOUND);
        snapshot_drop(store, &(struct drop){.job = this_job, .below_version = 4});
        snapshots_expect(store, 4, 0, "frozen");
        assert_int_equal(snapshot_holdings(store, list), 1);
        snapshot_drop(store, &(struct drop){.job = this_job, .below_version = INT64_MAX});
    }
}

static void a_repeat_of_what_was_cut_off_holds_on_to_nothing(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(directories[i]);
        const struct snapshot_waiter waiter = {0};
        struct err err = {0};
        snapshots_add(store, 3, 0, "frozen");
        snapshot_cut(store, &this_job, 2, 3);
        const struct holding late = holding_of(&this_job, 1, 4, 0, "frozen");
        assert_int_equal(snapshot_keep_same(store, &late, SNAPSHOT_REPLICA, &waiter, &err),
                         ERR_STALE);
        snapshot_drop(store, &(struct drop){.job = this_job, .below_version = 4});
        snapshot_flush(store);
        assert_int_equal(snapshot_count_bytes(store, SNAPSHOT_OWN, false, &this_job, 1).held, 0);
        assert_int_equal(snapshots_files(*state), 0);
    }
}

static void an_older_generation_replaces_nothing(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(NULL);
    struct err err = {0};
    const uint64_t before = snapshot_revision(store, NULL);
    snapshots_add_of(store, &this_job, 2, 3, 0, "two");
    snapshots_add_of(store, &this_job, 2, 3, 0, "second");
    snapshots_add_of(store, &this_job, 3, 3, 0, "three");
    const struct holding late = holding_of(&this_job, 2, 3, 0, "late");
    assert_int_equal(snapshots_try(store, &late, SNAPSHOT_OWN, "late", &err), ERR_STALE);
    snapshots_expect(store, 3, 0, "three");
    assert_int_equal(snapshot_holdings(store, list), 1);
    assert_true(snapshot_revision(store, NULL) > before);
}

static void what_is_cut_off_goes_and_does_not_come_back(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(directories[i]);
        struct err err = {0};
        snapshots_add_of(store, &this_job, 1, 3, 0, "three");
        snapshots_add_of(store, &this_job, 1, 4, 0, "four");
        snapshots_add_of(store, &other_job, 1, 9, 0, "nine");
        snapshot_cut(store, &this_job, 2, 3);
        assert_int_equal(snapshot_holdings(store, list), 2);
        const struct holding late = holding_of(&this_job, 1, 5, 0, "five");
        assert_int_equal(snapshots_try(store, &late, SNAPSHOT_REPLICA, "five", &err), ERR_STALE);
        snapshots_add_of(store, &this_job, 2, 4, 0, "four again");
        snapshots_expect(store, 4, 0, "four again");
        snapshots_expect(store, 3, 0, "three");
        snapshot_flush(store);
        assert_int_equal(snapshots_files(*state), i == 0 ? 0 : 2);
        snapshot_drop(store, &(struct drop){.job = other_job, .below_version = INT64_MAX});
    }
}

static void there_is_a_bound(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(NULL);
    struct err err = {0};
    for (int64_t unit = 0; unit < HOLDINGS_MAX; unit++) {
        snapshots_add(store, 1, unit, "x1");
    }
    const struct holding more = holding_of(&this_job, 1, 1, HOLDINGS_MAX, "x1");
    assert_int_equal(snapshots_try(store, &more, SNAPSHOT_OWN, "x1", &err), ERR_LIMIT);
    snapshots_add(store, 1, 7, "still replaced");
}

static void replicas_leave_room_for_own_ones(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(NULL);
    struct err err = {0};
    const int64_t most = HOLDINGS_MAX - UNITS_MAX;
    for (int64_t version = 1; version <= most; version++) {
        const struct holding holding = holding_of(&this_job, 1, version, 0, "x1");
        assert_ok(snapshots_try(store, &holding, SNAPSHOT_REPLICA, "x1", &err), &err);
    }
    const struct holding more = holding_of(&this_job, 1, most + 1, 0, "x1");
    assert_int_equal(snapshots_try(store, &more, SNAPSHOT_REPLICA, "x1", &err), ERR_LIMIT);
    snapshots_add(store, most + 1, 0, "own");
    const struct holding again = holding_of(&this_job, 1, 1, 0, "x2");
    assert_ok(snapshots_try(store, &again, SNAPSHOT_REPLICA, "x2", &err), &err);
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
    struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(NULL);
    assert_false(is_whole_now(store));
    snapshots_add(store, 1, 9, "long ago");
    snapshots_add(store, 3, 0, "a1");
    snapshots_add(store, 3, 1, "b1");
    snapshots_add_of(store, &other_job, 1, 4, 0, "c1");
    assert_true(is_whole_now(store));
    assert_false(is_whole_now(store));
    snapshots_add(store, 5, 0, "a2");
    assert_false(is_whole_now(store));
    snapshots_add(store, 5, 1, "b2");
    snapshots_add(store, 6, 0, "a3");
    assert_true(is_whole_now(store)); /* 5 was, in between */
    snapshot_drop(store, &(struct drop){.job = this_job, .below_version = 5});
    assert_false(is_whole_now(store));
}

static void bytes_are_counted_by_origin_and_generation(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(NULL);
    struct err err = {0};
    const struct outbox_queue_config config = {.first = 0, .end = 1, .resume_version = 3};
    const struct round_mark mark = {.kinds = REPLICA_MARK(REPLICA_NEIGHBOR)};
    struct outbox_queue *queue AUTO(outbox_queue_free) = NULL;
    assert_ok(outbox_queue_new(&config, &queue, &err), &err);
    outbox_queue_take(queue, 5, &mark); /* version 4 was abandoned */
    const struct holding old = holding_of(&this_job, 1, 3, 0, "12345");
    const struct holding present = holding_of(&this_job, 2, 4, 0, "1234567");
    snapshots_add_of(store, &this_job, 2, 4, 1, "own");
    assert_ok(snapshots_try(store, &old, SNAPSHOT_REPLICA, "12345", &err), &err);
    assert_ok(snapshots_try(store, &present, SNAPSHOT_REPLICA, "1234567", &err), &err);
    struct snapshot_bytes bytes = snapshot_count_bytes(store, SNAPSHOT_REPLICA, true, &this_job, 2);
    assert_int_equal(bytes.held, 12);
    assert_int_equal(bytes.present, 7);
    const struct snapshot *sent = snapshot_get(store, JOB, 4, 0);
    assert_int_equal(snapshot_release(store, SNAPSHOT_REPLICA, &this_job, 2, queue), 1);
    bytes = snapshot_count_bytes(store, SNAPSHOT_REPLICA, true, &this_job, 2);
    assert_int_equal(bytes.held, 12);
    snapshot_put_back(sent);
    bytes = snapshot_count_bytes(store, SNAPSHOT_REPLICA, true, &this_job, 2);
    assert_int_equal(bytes.held, 5);
    bytes = snapshot_count_bytes(store, SNAPSHOT_OWN, true, &this_job, 2);
    assert_int_equal(bytes.held, 3);
}

static void a_block_comes_back_while_blocks_are_retained(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = snapshots_new(NULL);
    snapshot_retain(store);
    void *first = snapshot_block(store, 1000);
    snapshot_block_free(store, first, 1000);
    assert_ptr_equal(snapshot_block(store, 1000), first);
    snapshot_block_free(store, first, 1000);
    snapshot_trim(store);
    void *second = snapshot_block(store, 1000);
    snapshot_block_free(store, second, 1000);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
