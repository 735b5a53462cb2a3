#include "agent/runtime/disk_watch.h"

#include "tests/support/test.h"

static int make_watch(void **state)
{
    struct disk_watch *watch = NULL;
    const int rc = disk_watch_new(&watch, NULL);
    *state = watch;
    return rc;
}

static int free_watch(void **state)
{
    struct disk_watch *watch = *state;
    disk_watch_free(&watch);
    return 0;
}

#define PATIENCE DISK_PATIENCE_MS

static void a_call_is_overdue_when_its_patience_is_over(void **state)
{
    struct err err = {0};
    const size_t place = disk_watch_begin(*state, "write a piece", 0, 100);
    assert_int_equal(disk_watch_check(*state, 100 + PATIENCE - 1, &err), 0);
    assert_int_equal(disk_watch_check(*state, 100 + PATIENCE, &err), ERR_TIMEOUT);
    assert_string_equal(err.text, "write a piece: the disk has not answered for 10 s");
    disk_watch_end(*state, place);
    assert_int_equal(disk_watch_check(*state, 100 + 2 * PATIENCE, &err), 0);
}

static void a_call_that_moves_more_is_given_more_time(void **state)
{
    struct err err = {0};
    const size_t place = disk_watch_begin(*state, "write a snapshot", UINT64_C(50000000), 0);
    assert_int_equal(disk_watch_check(*state, PATIENCE + 49999, &err), 0);
    assert_int_equal(disk_watch_check(*state, PATIENCE + 50000, &err), ERR_TIMEOUT);
    disk_watch_end(*state, place);
}

static void a_call_that_is_followed_by_another_has_returned(void **state)
{
    struct err err = {0};
    const size_t place = disk_watch_begin(*state, "read a piece", 0, 0);
    disk_watch_again(*state, place, PATIENCE - 1);
    assert_int_equal(disk_watch_check(*state, 2 * PATIENCE - 2, &err), 0);
    assert_int_equal(disk_watch_check(*state, 2 * PATIENCE - 1, &err), ERR_TIMEOUT);
    disk_watch_end(*state, place);
}

static void of_several_the_one_that_takes_longest_is_named(void **state)
{
    struct err err = {0};
    const size_t late = disk_watch_begin(*state, "late", 0, 5000);
    const size_t early = disk_watch_begin(*state, "early", 0, 0);
    assert_int_equal(disk_watch_check(*state, 3 * PATIENCE, &err), ERR_TIMEOUT);
    assert_holds(err.text, "early: ");
    disk_watch_end(*state, early);
    assert_int_equal(disk_watch_check(*state, 3 * PATIENCE, &err), ERR_TIMEOUT);
    assert_holds(err.text, "late: ");
    disk_watch_end(*state, late);
}

static void more_calls_than_there_is_room_for_are_let_through(void **state)
{
    struct err err = {0};
    size_t place[DISK_CALLS_MAX + 1];
    for (size_t i = 0; i <= DISK_CALLS_MAX; i++) {
        place[i] = disk_watch_begin(*state, "read", 0, 0);
    }
    for (size_t i = 0; i <= DISK_CALLS_MAX; i++) {
        disk_watch_again(*state, place[i], 1);
        disk_watch_end(*state, place[i]);
    }
    assert_int_equal(disk_watch_check(*state, 3 * PATIENCE, &err), 0);
}

static void without_a_watch_nothing_is_watched(void **state)
{
    (void)state;
    const size_t place = disk_watch_begin(NULL, "read", 0, 0);
    disk_watch_again(NULL, place, 1);
    disk_watch_end(NULL, place);
    assert_int_equal(disk_watch_check(NULL, 3 * PATIENCE, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_overdue_when_its_patience_is_over),
        cmocka_unit_test(a_call_that_moves_more_is_given_more_time),
        cmocka_unit_test(a_call_that_is_followed_by_another_has_returned),
        cmocka_unit_test(of_several_the_one_that_takes_longest_is_named),
        cmocka_unit_test(more_calls_than_there_is_room_for_are_let_through),
        cmocka_unit_test(without_a_watch_nothing_is_watched),
    };
    return cmocka_run_group_tests(tests, make_watch, free_watch);
}
