#include "agent/copies/outbox_tasks.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"

#define UNITS 2
#define SET_BYTES 100
#define REPLICA_BYTES 200

static const struct round_mark to_neighbor = {.kinds = REPLICA_MARK(REPLICA_NEIGHBOR)};
static const struct outbox_room empty;

/* Room in which the device holds that many own sets of this generation. */
static struct outbox_room own_sets(int64_t count)
{
    return (struct outbox_room){.own = {.held = count * SET_BYTES, .present = count * SET_BYTES}};
}

static struct outbox_tasks *make_for(bool stops_only)
{
    const struct outbox_tasks_config config = {
        .queue = {.first = 0, .end = UNITS},
        .set_bytes = SET_BYTES,
        .replica_bytes = REPLICA_BYTES,
        .stops_only = stops_only,
    };
    struct outbox_tasks *tasks = NULL;
    struct err err = {0};
    assert_ok(outbox_tasks_new(&config, &tasks, &err), &err);
    outbox_tasks_prepared(tasks, 0, true);
    return tasks;
}

static struct outbox_tasks *make(void)
{
    return make_for(false);
}

static struct outbox_task next(struct outbox_tasks *tasks, const struct outbox_room *room,
                               enum outbox_work work)
{
    struct outbox_task task;
    outbox_tasks_next(tasks, 1000, room, &task);
    assert_int_equal(task.work, work);
    return task;
}

static void take(struct outbox_tasks *tasks, int64_t version)
{
    size_t set = 0;
    assert_true(outbox_tasks_take(tasks, version, &to_neighbor, &set));
    outbox_tasks_filled(tasks, set);
}

static void keep(struct outbox_tasks *tasks, const struct outbox_task *task)
{
    for (int64_t unit = 0; unit < UNITS; unit++) {
        struct holding holding = {.version = task->version, .unit = unit, .bytes = 50};
        (void)snprintf(holding.sha256, SHA256_SIZE, "%064d", (int)(10 * task->version + unit));
        outbox_tasks_hold(tasks, &holding);
    }
    outbox_tasks_kept(tasks, task->set, OUTBOX_HELD);
}

/* Take a version, prepare the next set if that is the next task, and keep the version. */
static void take_and_keep(struct outbox_tasks *tasks, int64_t version,
                          const struct outbox_room *room)
{
    struct outbox_task task;
    take(tasks, version);
    outbox_tasks_next(tasks, 1000, room, &task);
    while (task.work != OUTBOX_KEEP) {
        if (task.work == OUTBOX_PREPARE) {
            outbox_tasks_prepared(tasks, task.set, true);
        }
        outbox_tasks_next(tasks, 1000, room, &task);
    }
    keep(tasks, &task);
}

/* Deliver whatever is due. Returns the task that follows. */
static struct outbox_task send_all(struct outbox_tasks *tasks, const struct outbox_room *room)
{
    struct outbox_task task;
    outbox_tasks_next(tasks, 1000, room, &task);
    while (task.work == OUTBOX_SEND) {
        (void)outbox_tasks_answered(tasks, &task.send, 0, 1000, 0);
        outbox_tasks_next(tasks, 1000, room, &task);
    }
    return task;
}

static void the_next_set_is_prepared_before_a_filled_one_is_kept_and_sent(void **state)
{
    (void)state;
    struct outbox_tasks *tasks AUTO(outbox_tasks_free) = make();
    const struct outbox_room one = own_sets(1);
    assert_int_equal(next(tasks, &empty, OUTBOX_WAIT).due_ms, INT64_MAX);
    take(tasks, 5);
    struct outbox_task task = next(tasks, &empty, OUTBOX_PREPARE);
    outbox_tasks_prepared(tasks, task.set, true);
    task = next(tasks, &empty, OUTBOX_KEEP);
    assert_int_equal(task.version, 5);
    keep(tasks, &task);
    task = next(tasks, &one, OUTBOX_SEND);
    assert_int_equal(task.send.version, 5);
    assert_int_equal(task.send.unit, 0);
    assert_false(task.send.whole);
}

static void without_rounds_there_is_one_set_for_a_stop(void **state)
{
    (void)state;
    struct outbox_tasks *tasks AUTO(outbox_tasks_free) = make_for(true);
    const struct outbox_room one = own_sets(1);
    size_t set = 0;
    assert_int_equal(next(tasks, &empty, OUTBOX_WAIT).due_ms, INT64_MAX);
    assert_int_equal(outbox_tasks_stop(tasks, 5, &set), OUTBOX_STOP_FILL);
    (void)next(tasks, &empty, OUTBOX_RELEASE); /* while it is filled */
    assert_int_equal(next(tasks, &empty, OUTBOX_WAIT).due_ms, INT64_MAX);
    outbox_tasks_filled(tasks, set);
    const struct outbox_task task = next(tasks, &empty, OUTBOX_KEEP);
    keep(tasks, &task);
    assert_int_equal(outbox_tasks_stop(tasks, 5, &set), OUTBOX_STOP_HELD);
    outbox_tasks_end_stop(tasks);
    (void)next(tasks, &one, OUTBOX_RELEASE);
    assert_int_equal(next(tasks, &one, OUTBOX_WAIT).due_ms, INT64_MAX);
}

static void a_stop_takes_no_set_beside_the_one_that_is_filled_for_it(void **state)
{
    (void)state;
    struct outbox_tasks *tasks AUTO(outbox_tasks_free) = make();
    const struct outbox_room three = own_sets(3);
    size_t set = 0;
    assert_int_equal(outbox_tasks_stop(tasks, 5, &set), OUTBOX_STOP_FILL);
    assert_int_equal(next(tasks, &three, OUTBOX_RELEASE).origin, SNAPSHOT_OWN);
    assert_int_equal(next(tasks, &three, OUTBOX_WAIT).due_ms, INT64_MAX);
}

static void own_snapshots_and_sets_stay_within_three(void **state)
{
    (void)state;
    struct outbox_tasks *tasks AUTO(outbox_tasks_free) = make();
    const struct outbox_room two = own_sets(2);
    const struct outbox_room three = own_sets(3);
    size_t set = 0;
    take_and_keep(tasks, 1, &empty);
    take_and_keep(tasks, 2, &empty);
    take_and_keep(tasks, 3, &two);
    assert_int_equal(next(tasks, &three, OUTBOX_RELEASE).origin, SNAPSHOT_OWN);
    next(tasks, &three, OUTBOX_SEND); /* the release made no room: it is not asked again */
    assert_false(outbox_tasks_take(tasks, 4, &to_neighbor, &set));
    assert_int_equal(outbox_tasks_skipped(tasks), 1);
    next(tasks, &three, OUTBOX_RELEASE); /* the mark may say what can go */
    next(tasks, &two, OUTBOX_PREPARE);
}

static void a_plan_prepares_its_first_two_sets_beside_those_of_the_one_before(void **state)
{
    (void)state;
    struct outbox_tasks *tasks AUTO(outbox_tasks_free) = make();
    const struct outbox_room old = {.own = {.held = 3 * SET_BYTES}};
    take(tasks, 1);
    next(tasks, &old, OUTBOX_PREPARE);
}

static void replicas_of_abandoned_rounds_leave_when_another_set_does_not_fit(void **state)
{
    (void)state;
    struct outbox_tasks *tasks AUTO(outbox_tasks_free) = make();
    const struct outbox_room full = {.replicas = {.held = 2 * REPLICA_BYTES, .present = 150}};
    take(tasks, 1);
    outbox_tasks_prepared(tasks, next(tasks, &full, OUTBOX_PREPARE).set, true);
    assert_int_equal(next(tasks, &full, OUTBOX_RELEASE).origin, SNAPSHOT_REPLICA);
    next(tasks, &full, OUTBOX_KEEP);
}

static void a_stop_takes_a_fourth_set_and_goes_before_what_is_to_be_sent(void **state)
{
    (void)state;
    struct outbox_tasks *tasks AUTO(outbox_tasks_free) = make();
    const struct outbox_room three = own_sets(3);
    const struct outbox_room four = own_sets(4);
    size_t set = 0;
    take_and_keep(tasks, 1, &empty);
    take_and_keep(tasks, 2, &empty);
    take_and_keep(tasks, 3, &three);
    assert_int_equal(outbox_tasks_stop(tasks, 4, &set), OUTBOX_STOP_WAITS);
    struct outbox_task task = next(tasks, &three, OUTBOX_PREPARE);
    outbox_tasks_prepared(tasks, task.set, true);
    assert_int_equal(outbox_tasks_stop(tasks, 4, &set), OUTBOX_STOP_FILL);
    outbox_tasks_filled(tasks, set);
    assert_int_equal(outbox_tasks_stop(tasks, 4, &set), OUTBOX_STOP_WAITS);
    task = next(tasks, &three, OUTBOX_KEEP);
    keep(tasks, &task);
    assert_int_equal(outbox_tasks_stop(tasks, 4, &set), OUTBOX_STOP_HELD);
    outbox_tasks_end_stop(tasks);
    next(tasks, &four, OUTBOX_RELEASE);
    assert_int_equal(next(tasks, &four, OUTBOX_SEND).send.version, 3);
}

static void a_stop_waits_for_the_snapshot_of_its_version_that_is_under_way(void **state)
{
    (void)state;
    struct outbox_tasks *tasks AUTO(outbox_tasks_free) = make();
    size_t set = 0;
    take(tasks, 7);
    assert_int_equal(outbox_tasks_stop(tasks, 7, &set), OUTBOX_STOP_WAITS);
    const struct outbox_task task = next(tasks, &empty, OUTBOX_KEEP);
    outbox_tasks_kept(tasks, task.set, OUTBOX_NOT_HELD);
    assert_int_equal(outbox_tasks_stop(tasks, 7, &set), OUTBOX_STOP_FAILED);
    outbox_tasks_end_stop(tasks);
    assert_int_equal(outbox_tasks_stop(tasks, 0, &set), OUTBOX_STOP_HELD);
}

static void without_memory_no_set_is_prepared_until_something_is_dropped(void **state)
{
    (void)state;
    struct outbox_tasks *tasks AUTO(outbox_tasks_free) = make();
    size_t set = 0;
    take_and_keep(tasks, 1, &empty); /* prepares another one */
    take(tasks, 2);
    outbox_tasks_prepared(tasks, next(tasks, &empty, OUTBOX_PREPARE).set, false);
    struct outbox_task task = next(tasks, &empty, OUTBOX_KEEP);
    keep(tasks, &task);
    next(tasks, &empty, OUTBOX_SEND);
    outbox_tasks_drop(tasks, 0); /* of another job */
    outbox_tasks_prepared(tasks, next(tasks, &empty, OUTBOX_PREPARE).set, false);
    next(tasks, &empty, OUTBOX_SEND);
    assert_int_equal(outbox_tasks_stop(tasks, 3, &set), OUTBOX_STOP_WAITS);
    outbox_tasks_prepared(tasks, next(tasks, &empty, OUTBOX_PREPARE).set, false);
    assert_int_equal(outbox_tasks_stop(tasks, 3, &set), OUTBOX_STOP_FAILED);
}

static void a_status_decides_whether_a_send_is_repeated(void **state)
{
    static const struct {
        int status, of_neighbor, of_center;
    } row[] = {
        {404, ERR_NOT_FOUND, ERR_NOT_FOUND}, {409, ERR_STALE, ERR_STATE},
        {429, ERR_STATE, ERR_STATE},         {500, ERR_STATE, ERR_STATE},
        {503, ERR_STATE, ERR_STATE},         {507, ERR_FULL, ERR_FULL},
        {403, ERR_PROTOCOL, ERR_PROTOCOL},   {422, ERR_PROTOCOL, ERR_PROTOCOL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        int64_t retry_ms = 0;
        assert_int_equal(outbox_tasks_judge(REPLICA_NEIGHBOR, row[i].status, &retry_ms),
                         row[i].of_neighbor);
        assert_int_equal(outbox_tasks_judge(REPLICA_CENTER, row[i].status, &retry_ms),
                         row[i].of_center);
        assert_int_equal(retry_ms > 0, row[i].status == 507);
    }
}

static void a_failed_send_is_repeated_and_a_rejected_one_is_not(void **state)
{
    (void)state;
    struct outbox_tasks *tasks AUTO(outbox_tasks_free) = make();
    const struct outbox_room one = own_sets(1);
    take_and_keep(tasks, 5, &empty);
    struct outbox_task task = next(tasks, &one, OUTBOX_SEND);
    assert_int_equal(outbox_tasks_answered(tasks, &task.send, ERR_CANCELLED, 1000, 0),
                     OUTBOX_GOES_ON);
    task = next(tasks, &one, OUTBOX_SEND);
    assert_int_equal(outbox_tasks_answered(tasks, &task.send, ERR_FULL, 1000, 500), OUTBOX_GOES_ON);
    assert_int_equal(next(tasks, &one, OUTBOX_WAIT).due_ms, 1500);
    outbox_tasks_next(tasks, 1500, &one, &task);
    assert_int_equal(task.work, OUTBOX_SEND);
    assert_int_equal(outbox_tasks_answered(tasks, &task.send, ERR_NOT_FOUND, 1500, 0),
                     OUTBOX_GOES_ON);
    task = next(tasks, &one, OUTBOX_SEND);
    assert_true(task.send.whole);
    assert_int_equal(outbox_tasks_answered(tasks, &task.send, ERR_STALE, 1500, 0),
                     OUTBOX_ABANDONED);
    assert_int_equal(next(tasks, &one, OUTBOX_WAIT).due_ms, INT64_MAX);
}

static void a_collection_ends_with_its_last_unit_or_fails_with_a_rejected_one(void **state)
{
    (void)state;
    struct outbox_tasks *tasks AUTO(outbox_tasks_free) = make();
    const struct outbox_room one = own_sets(1);
    take_and_keep(tasks, 5, &empty);
    assert_int_equal(send_all(tasks, &one).work, OUTBOX_WAIT);
    outbox_tasks_collect(tasks, 5);
    struct outbox_task task = send_all(tasks, &one);
    assert_int_equal(task.work, OUTBOX_COLLECTED);
    assert_int_equal(task.version, 5);
    next(tasks, &one, OUTBOX_WAIT);
    take(tasks, 6);
    outbox_tasks_collect(tasks, 6);
    task = next(tasks, &one, OUTBOX_PREPARE);
    outbox_tasks_prepared(tasks, task.set, true);
    task = next(tasks, &one, OUTBOX_KEEP);
    keep(tasks, &task);
    task = next(tasks, &one, OUTBOX_SEND);
    while (task.send.kind == REPLICA_NEIGHBOR) {
        (void)outbox_tasks_answered(tasks, &task.send, 0, 1000, 0);
        task = next(tasks, &one, OUTBOX_SEND);
    }
    assert_int_equal(outbox_tasks_answered(tasks, &task.send, ERR_PROTOCOL, 1000, 0),
                     OUTBOX_NOT_COLLECTED);
    next(tasks, &one, OUTBOX_WAIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_set_is_prepared_before_a_filled_one_is_kept_and_sent),
        cmocka_unit_test(without_rounds_there_is_one_set_for_a_stop),
        cmocka_unit_test(a_stop_takes_no_set_beside_the_one_that_is_filled_for_it),
        cmocka_unit_test(own_snapshots_and_sets_stay_within_three),
        cmocka_unit_test(a_plan_prepares_its_first_two_sets_beside_those_of_the_one_before),
        cmocka_unit_test(replicas_of_abandoned_rounds_leave_when_another_set_does_not_fit),
        cmocka_unit_test(a_stop_takes_a_fourth_set_and_goes_before_what_is_to_be_sent),
        cmocka_unit_test(a_stop_waits_for_the_snapshot_of_its_version_that_is_under_way),
        cmocka_unit_test(without_memory_no_set_is_prepared_until_something_is_dropped),
        cmocka_unit_test(a_status_decides_whether_a_send_is_repeated),
        cmocka_unit_test(a_failed_send_is_repeated_and_a_rejected_one_is_not),
        cmocka_unit_test(a_collection_ends_with_its_last_unit_or_fails_with_a_rejected_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
