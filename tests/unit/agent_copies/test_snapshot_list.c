#include "agent/copies/snapshot_list.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"

#define POOL_MAX (HOLDINGS_MAX + 1)

/* A device with room for one snapshot more than it may hold. */
struct bench {
    struct snapshot_list list;
    struct snapshot pool[POOL_MAX];
    size_t used;
    struct snapshot *gone[HOLDINGS_MAX];
};

static const struct job_id job_a = {"job_a"};
static const struct job_id job_b = {"job_b"};

static struct snapshot *make(struct bench *bench, const struct job_id *job, int64_t generation,
                             int64_t version, int64_t unit)
{
    assert_true(bench->used < POOL_MAX);
    struct snapshot *snapshot = &bench->pool[bench->used++];
    *snapshot = (struct snapshot){
        .holding = {
            .job = *job, .generation = generation, .version = version, .unit = unit, .bytes = 10}};
    (void)snprintf(snapshot->holding.sha256, SHA256_SIZE, "%064d", (int)(100 * version + unit));
    return snapshot;
}

static int insert(struct bench *bench, struct snapshot *snapshot)
{
    struct err err = {0};
    struct snapshot *old = NULL;
    return snapshot_list_insert(&bench->list, snapshot, &old, &err);
}

static void enter(struct bench *bench, const struct job_id *job, int64_t version, int64_t unit)
{
    assert_int_equal(insert(bench, make(bench, job, 1, version, unit)), 0);
}

static void one_set_fits_beside_replicas_of_an_earlier_plan(void **state)
{
    static const struct {
        int64_t bound;
        struct snapshot_bytes replicas;
        int64_t bytes;
        bool fits;
    } row[] = {
        {2000, {0, 0}, 1000, true},
        {2000, {1000, 1000}, 1000, true},
        {2000, {1001, 1001}, 1000, false},
        {2000, {5000, 0}, 1000, true},
        {2000, {5900, 900}, 100, true},
        {2000, {6000, 1000}, 1, false},
        {0, {0, 0}, 1, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        assert_int_equal(snapshot_bytes_fit(row[i].bound, &row[i].replicas, row[i].bytes),
                         row[i].fits);
    }
}

static void a_version_is_whole_with_as_many_units_as_the_newest_one_before_it(void **state)
{
    (void)state;
    struct bench *bench = calloc(1, sizeof(*bench));
    enter(bench, &job_a, 1, 0);
    enter(bench, &job_a, 2, 0);
    enter(bench, &job_a, 2, 1);
    enter(bench, &job_b, 3, 0);
    enter(bench, &job_b, 3, 1);
    bench->list.whole = false;
    enter(bench, &job_a, 4, 0);
    assert_false(bench->list.whole);
    enter(bench, &job_a, 4, 1);
    assert_true(bench->list.whole);
    bench->list.whole = false;
    enter(bench, &job_a, 3, 0); /* later, and compared with version 2 */
    assert_false(bench->list.whole);
    free(bench);
}

static void a_snapshot_replaces_one_of_the_same_key_unless_that_is_newer(void **state)
{
    (void)state;
    struct bench *bench = calloc(1, sizeof(*bench));
    struct err err = {0};
    struct snapshot *first = make(bench, &job_a, 2, 5, 0);
    struct snapshot *second = make(bench, &job_a, 2, 5, 0);
    struct snapshot *older = make(bench, &job_a, 1, 5, 0);
    struct snapshot *old = NULL;
    assert_ok(snapshot_list_insert(&bench->list, first, &old, &err), &err);
    assert_null(old);
    assert_ok(snapshot_list_insert(&bench->list, second, &old, &err), &err);
    assert_ptr_equal(old, first);
    const uint64_t revision = bench->list.revision;
    assert_int_equal(insert(bench, older), ERR_STALE);
    assert_int_equal(bench->list.revision, revision);
    assert_ptr_equal(snapshot_list_find(&bench->list, job_a.text, 5, 0), second);
    assert_null(snapshot_list_find(&bench->list, job_b.text, 5, 0));
    free(bench);
}

static void the_same_bytes_are_found_under_another_version(void **state)
{
    (void)state;
    struct bench *bench = calloc(1, sizeof(*bench));
    enter(bench, &job_a, 4, 1);
    struct holding wanted = bench->pool[0].holding;
    wanted.version = 9;
    assert_ptr_equal(snapshot_list_find_same(&bench->list, &wanted), &bench->pool[0]);
    wanted.unit = 2;
    assert_null(snapshot_list_find_same(&bench->list, &wanted));
    wanted.unit = 1;
    wanted.job = job_b;
    assert_null(snapshot_list_find_same(&bench->list, &wanted));
    free(bench);
}

static void versions_after_a_start_leave_and_may_not_come_back_late(void **state)
{
    (void)state;
    struct bench *bench = calloc(1, sizeof(*bench));
    const struct snapshot_start start = {.job = job_a, .generation = 2, .version = 4};
    enter(bench, &job_a, 4, 0);
    enter(bench, &job_a, 6, 0);
    enter(bench, &job_b, 6, 0);
    assert_int_equal(snapshot_list_start(&bench->list, &start, bench->gone), 1);
    assert_ptr_equal(bench->gone[0], &bench->pool[1]);
    assert_int_equal(insert(bench, make(bench, &job_a, 1, 5, 0)), ERR_STALE);
    assert_int_equal(insert(bench, make(bench, &job_a, 2, 5, 0)), 0);
    assert_int_equal(insert(bench, make(bench, &job_b, 1, 5, 0)), 0);
    free(bench);
}

static void dropped_and_damaged_snapshots_leave(void **state)
{
    (void)state;
    struct bench *bench = calloc(1, sizeof(*bench));
    const struct drop drop = {.job = job_a, .below_version = 3};
    enter(bench, &job_a, 2, 0);
    enter(bench, &job_a, 3, 0);
    enter(bench, &job_b, 2, 0);
    assert_int_equal(snapshot_list_drop(&bench->list, &drop, bench->gone), 1);
    assert_ptr_equal(bench->gone[0], &bench->pool[0]);
    const uint64_t revision = bench->list.revision;
    assert_int_equal(snapshot_list_drop(&bench->list, &drop, bench->gone), 0);
    assert_int_equal(bench->list.revision, revision);
    assert_int_equal(snapshot_list_discard(&bench->list, &bench->pool[1], bench->gone), 1);
    assert_int_equal(bench->list.count, 1);
    free(bench);
}

static void replicas_leave_room_for_a_set_of_own_snapshots(void **state)
{
    (void)state;
    struct bench *bench = calloc(1, sizeof(*bench));
    struct err err = {0};
    for (int64_t version = 1; version <= HOLDINGS_MAX - UNITS_MAX; version++) {
        struct snapshot *replica = make(bench, &job_a, 1, version, 0);
        replica->origin = SNAPSHOT_REPLICA;
        assert_int_equal(insert(bench, replica), 0);
    }
    struct snapshot *replica = make(bench, &job_a, 1, HOLDINGS_MAX, 0);
    replica->origin = SNAPSHOT_REPLICA;
    assert_int_equal(snapshot_list_check(&bench->list, replica, &err), ERR_LIMIT);
    replica->origin = SNAPSHOT_OWN;
    assert_ok(snapshot_list_check(&bench->list, replica, &err), &err);
    free(bench);
}

static void abandoned_rounds_of_one_origin_leave_when_memory_is_short(void **state)
{
    (void)state;
    struct bench *bench = calloc(1, sizeof(*bench));
    const struct outbox_queue_config config = {.first = 0, .end = 1, .resume_version = 1};
    const struct round_mark mark = {.kinds = REPLICA_MARK(REPLICA_NEIGHBOR), .keep = {2}};
    struct outbox_queue *queue AUTO(outbox_queue_free) = NULL;
    struct err err = {0};
    assert_ok(outbox_queue_new(&config, &queue, &err), &err);
    outbox_queue_take(queue, 4, &mark);
    for (int64_t version = 1; version <= 4; version++) {
        enter(bench, &job_a, version, 0);
    }
    enter(bench, &job_b, 3, 0);
    assert_int_equal(
        snapshot_list_release(&bench->list, SNAPSHOT_REPLICA, &job_a, 1, queue, bench->gone), 0);
    assert_int_equal(
        snapshot_list_release(&bench->list, SNAPSHOT_OWN, &job_a, 1, queue, bench->gone), 1);
    assert_int_equal(bench->gone[0]->holding.version, 3);
    free(bench);
}

static void a_sender_repeats_with_the_bytes_only_if_they_are_unknown(void **state)
{
    (void)state;
    assert_int_equal(snapshot_list_status(0), 204);
    assert_int_equal(snapshot_list_status(ERR_NOT_FOUND), 404);
    assert_int_equal(snapshot_list_status(ERR_STALE), 409);
    assert_int_equal(snapshot_list_status(ERR_FORMAT), 422);
    assert_int_equal(snapshot_list_status(ERR_LIMIT), 507);
    assert_int_equal(snapshot_list_status(ERR_IO), 507);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_set_fits_beside_replicas_of_an_earlier_plan),
        cmocka_unit_test(a_version_is_whole_with_as_many_units_as_the_newest_one_before_it),
        cmocka_unit_test(a_snapshot_replaces_one_of_the_same_key_unless_that_is_newer),
        cmocka_unit_test(the_same_bytes_are_found_under_another_version),
        cmocka_unit_test(versions_after_a_start_leave_and_may_not_come_back_late),
        cmocka_unit_test(dropped_and_damaged_snapshots_leave),
        cmocka_unit_test(replicas_leave_room_for_a_set_of_own_snapshots),
        cmocka_unit_test(abandoned_rounds_of_one_origin_leave_when_memory_is_short),
        cmocka_unit_test(a_sender_repeats_with_the_bytes_only_if_they_are_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
