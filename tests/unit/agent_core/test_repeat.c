/* Calls that are repeated, and what they show of a peer. */
#include <stdio.h>
#include <string.h>

#include "agent/core/repeat.h"
#include "agent/core/trouble_list.h"
#include "base/err.h"
#include "tests/support/test.h"

static struct repeat_next try(struct repeat *repeat, int code, enum peer_trouble trouble,
                              int64_t now_ms)
{
    const struct repeat_try tried = {
        .code = code, .trouble = trouble, .began_ms = now_ms, .now_ms = now_ms};
    struct repeat_next next;
    repeat_tried(repeat, &tried, &next);
    return next;
}

static void a_sender_forgives_one_broken_connection_and_never_gives_up(void **state)
{
    (void)state;
    struct repeat repeat;
    repeat_begin(&repeat, REPEAT_TENSOR, 500);
    struct repeat_next next = try(&repeat, ERR_NETWORK, PEER_BROKEN, 0);
    assert_true(next.again && next.wait_ms == 0 && next.news == REPEAT_NOTHING);
    next = try(&repeat, ERR_NETWORK, PEER_BROKEN, 0);
    assert_true(next.again && next.wait_ms == 10 && next.news == REPEAT_IN_TROUBLE);
    next = try(&repeat, ERR_TIMEOUT, PEER_STALLED, 1000000);
    assert_true(next.again && next.wait_ms == 20);
    next = try(&repeat, repeat_code(REPEAT_TENSOR, 503), PEER_BROKEN, 1000000);
    assert_true(next.again && next.wait_ms == 40 && next.news == REPEAT_ANSWERED);
    next = try(&repeat, repeat_code(REPEAT_TENSOR, 409), PEER_BROKEN, 1000000);
    assert_true(!next.again && next.news == REPEAT_ANSWERED);
    assert_int_equal(repeat_code(REPEAT_TENSOR, 409), ERR_STALE);
}

static void parameters_are_asked_for_until_the_server_has_them(void **state)
{
    (void)state;
    struct repeat repeat;
    repeat_begin(&repeat, REPEAT_PULL, 500);
    assert_true(try(&repeat, repeat_code(REPEAT_PULL, 503), PEER_BROKEN, 0).again);
    assert_true(try(&repeat, repeat_code(REPEAT_PULL, 410), PEER_BROKEN, 1000000).again);
    assert_true(try(&repeat, ERR_TIMEOUT, PEER_STALLED, 2000000).again);
    assert_int_equal(repeat_code(REPEAT_PULL, 200), 0);
    assert_false(try(&repeat, repeat_code(REPEAT_PULL, 422), PEER_BROKEN, 2000000).again);
}

static void a_copy_is_asked_for_until_its_match_ends(void **state)
{
    (void)state;
    struct repeat repeat;
    repeat_begin(&repeat, REPEAT_MIX, 500);
    assert_true(try(&repeat, repeat_code(REPEAT_MIX, 503), PEER_BROKEN, 0).again);
    assert_true(try(&repeat, repeat_code(REPEAT_MIX, 403), PEER_BROKEN, 1000000).again);
    assert_true(try(&repeat, ERR_TIMEOUT, PEER_STALLED, 2000000).again);
    assert_int_equal(repeat_code(REPEAT_MIX, 200), 0);
    assert_int_equal(repeat_code(REPEAT_MIX, 410), ERR_NOT_FOUND);
    assert_int_equal(repeat_code(REPEAT_MIX, 409), ERR_STALE);
    assert_false(try(&repeat, repeat_code(REPEAT_MIX, 410), PEER_BROKEN, 2000000).again);
    assert_int_equal(repeat_code(REPEAT_SNAPSHOT, 403), ERR_STALE);
}

static void a_fault_of_this_device_shows_nothing_of_its_peer(void **state)
{
    (void)state;
    struct repeat repeat;
    static const int codes[] = {ERR_MEMORY, ERR_IO, ERR_INVALID};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        repeat_begin(&repeat, REPEAT_ALIVE, 500);
        const struct repeat_next next = try(&repeat, codes[i], PEER_BROKEN, 0);
        assert_true(!next.again && next.news == REPEAT_NOTHING);
    }
}

static void a_source_that_is_out_of_reach_counts_as_gone_after_the_peer_deadline(void **state)
{
    (void)state;
    struct repeat source, ping;
    repeat_begin(&source, REPEAT_SNAPSHOT, 500);
    repeat_begin(&ping, REPEAT_PING, 500);
    assert_true(try(&source, ERR_NETWORK, PEER_REFUSED, 0).again);
    assert_true(try(&ping, ERR_NETWORK, PEER_REFUSED, 0).again);
    assert_false(try(&source, ERR_NETWORK, PEER_REFUSED, 501).again);
    assert_true(try(&ping, ERR_NETWORK, PEER_REFUSED, 501).again);
    assert_false(try(&ping, ERR_NETWORK, PEER_REFUSED, 60001).again);
}

static void a_progressing_transfer_is_not_abandoned(void **state)
{
    (void)state;
    struct repeat repeat;
    struct repeat_next next;
    repeat_begin(&repeat, REPEAT_CONTENT, 0);
    struct repeat_try tried = {.code = ERR_NETWORK, .moved = true, .began_ms = 0, .now_ms = 50000};
    repeat_tried(&repeat, &tried, &next);
    tried.began_ms = 50000;
    tried.now_ms = 100000;
    repeat_tried(&repeat, &tried, &next);
    assert_true(next.again && next.news == REPEAT_NOTHING);
    tried.moved = false;
    tried.code = ERR_STATE; /* busy */
    tried.now_ms = 110001;
    repeat_tried(&repeat, &tried, &next);
    assert_false(next.again);
}

static void a_coordinator_that_is_away_is_waited_for(void **state)
{
    (void)state;
    struct repeat content;
    repeat_begin(&content, REPEAT_CONTENT, 0);
    assert_true(try(&content, ERR_NETWORK, PEER_REFUSED, 0).again);
    assert_true(try(&content, ERR_TIMEOUT, PEER_STALLED, 3500000).again);
    assert_false(try(&content, ERR_NOT_FOUND, PEER_REFUSED, 3500001).again);
}

static void a_heartbeat_reports_the_worst_of_a_device_once(void **state)
{
    (void)state;
    static struct heartbeat heartbeat; /* too large for a stack */
    struct trouble_list list = {0};
    const struct device_id a = {"dev_a"}, b = {"dev_b"};
    assert_true(trouble_list_add(&list, TROUBLE_NEXT, &a, PEER_STALLED, 100));
    assert_false(trouble_list_add(&list, TROUBLE_NEXT, &a, PEER_STALLED, 200));
    assert_true(trouble_list_add(&list, TROUBLE_REPLICA, &a, PEER_REFUSED, 300));
    assert_true(trouble_list_add(&list, TROUBLE_PREVIOUS, &b, PEER_BROKEN, 400));
    trouble_list_report(&list, 500, &heartbeat);
    assert_int_equal(heartbeat.peer_report_count, 2);
    assert_string_equal(heartbeat.peer_report[0].device.text, "dev_a");
    assert_int_equal(heartbeat.peer_report[0].kind, PEER_REFUSED);
    assert_int_equal(heartbeat.peer_report[0].for_ms, 400);
    assert_true(trouble_list_clear(&list, TROUBLE_PREVIOUS));
    assert_false(trouble_list_clear(&list, TROUBLE_PREVIOUS));
    trouble_list_report(&list, 500, &heartbeat);
    assert_int_equal(heartbeat.peer_report_count, 1);
}

static void more_devices_than_a_heartbeat_has_room_for_are_not_reported(void **state)
{
    (void)state;
    static struct heartbeat heartbeat;
    struct trouble_list list = {0};
    for (int i = 0; i < STAGES_MAX; i++) {
        struct device_id device = {{0}};
        (void)snprintf(device.text, ID_SIZE, "dev_%d", i);
        assert_true(trouble_list_add(&list, (enum trouble_source)(TROUBLE_STAGE + i), &device,
                                     PEER_STALLED, 100));
    }
    trouble_list_report(&list, 500, &heartbeat);
    assert_int_equal(heartbeat.peer_report_count, PEER_REPORTS_MAX);
    assert_string_equal(heartbeat.peer_report[PEER_REPORTS_MAX - 1].device.text, "dev_3");
    assert_true(trouble_list_clear(&list, TROUBLE_STAGE));
    trouble_list_report(&list, 500, &heartbeat);
    assert_string_equal(heartbeat.peer_report[PEER_REPORTS_MAX - 1].device.text, "dev_4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sender_forgives_one_broken_connection_and_never_gives_up),
        cmocka_unit_test(a_copy_is_asked_for_until_its_match_ends),
        cmocka_unit_test(a_fault_of_this_device_shows_nothing_of_its_peer),
        cmocka_unit_test(a_source_that_is_out_of_reach_counts_as_gone_after_the_peer_deadline),
        cmocka_unit_test(a_progressing_transfer_is_not_abandoned),
        cmocka_unit_test(a_coordinator_that_is_away_is_waited_for),
        cmocka_unit_test(a_heartbeat_reports_the_worst_of_a_device_once),
        cmocka_unit_test(parameters_are_asked_for_until_the_server_has_them),
        cmocka_unit_test(more_devices_than_a_heartbeat_has_room_for_are_not_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
