/* Averages that groups evaluate on the samples which their devices hold out. */
#include "coordinator/core/gossip/gossip.h"
#include "tests/support/test.h"

enum { GROUPS = 3, SAMPLES = 320, HELD = 64, BATCH = 32, SPEED = 320 };

static struct gossip gossip;
static struct gossip_report report[GROUPS];

/* All groups are heard, and gave a copy for an average that group 0 computes. */
static void init(bool adopts, bool last)
{
    struct gossip_order order;
    const struct gossip_rules rules = {.seed = 1,
                                       .life = 4,
                                       .batch = BATCH,
                                       .level = true,
                                       .average_every = 0,
                                       .adopts = adopts,
                                       .tests = true};
    gossip_init(&gossip, &rules);
    for (size_t g = 0; g < GROUPS; g++) {
        gossip_enter(&gossip, g, 1, SAMPLES, g == 0 ? 2 * SPEED : SPEED, false, 0);
        gossip_hold_out(&gossip, g, HELD);
        report[g] = (struct gossip_report){.generation = 1};
        gossip_hear(&gossip, g, &report[g], 0);
    }
    if (last) {
        gossip_finish(&gossip);
    }
    gossip_tick(&gossip, 1, 0);
    for (size_t g = 0; g < GROUPS; g++) {
        report[g].average.xid = gossip.average;
        report[g].average.copied = true;
        report[g].average.applied = !adopts || last;
        gossip_hear(&gossip, g, &report[g], 10);
    }
    gossip_tick(&gossip, 1, 10);
    assert_int_equal(gossip.averager, 0);
    while (gossip_next(&gossip, &order)) {
    }
    report[0].average.fetched = true;
    gossip_hear(&gossip, 0, &report[0], 20);
    gossip_tick(&gossip, 1, 20);
}

/* Both others fetch the average. */
static void expect_fetches(double alpha)
{
    struct gossip_order order;
    for (size_t g = 1; g < GROUPS; g++) {
        assert_true(gossip_next(&gossip, &order));
        assert_int_equal(order.group, g);
        assert_int_equal(order.match.kind, MIX_ADOPT);
        assert_int_equal(order.match.peer[0].group, 0);
        assert_true(order.match.alpha == alpha && order.match.statistics_alpha == alpha);
    }
    assert_false(gossip_next(&gossip, &order));
}

static void test_at(size_t group, int64_t now_ms)
{
    report[group].average.applied = report[group].average.tested = true;
    gossip_hear(&gossip, group, &report[group], now_ms);
    gossip_tick(&gossip, 1, now_ms);
}

static void an_average_is_judged_when_it_is_stored_and_all_have_evaluated_it(void **state)
{
    (void)state;
    for (int adopts = 0; adopts < 2; adopts++) {
        init(adopts, false);
        const struct mix_xid xid = gossip.average;
        expect_fetches(adopts);
        gossip_stored(&gossip, xid);
        for (size_t g = 0; g < GROUPS; g++) {
            assert_true(gossip_is_testing(&gossip, g));
            assert_false(gossip_take_tests(&gossip));
            test_at(g, 30);
            assert_false(gossip_is_testing(&gossip, g));
        }
        assert_true(gossip_take_tests(&gossip));
        assert_false(gossip_take_tests(&gossip)); /* once */
        gossip_tick(&gossip, 1, 40);
        gossip_tick(&gossip, 1, 41);
        assert_true(mix_xid_after(gossip.average, xid)); /* the next one is begun */
    }
}

static void no_average_is_begun_while_one_is_evaluated(void **state)
{
    (void)state;
    init(true, false);
    const struct mix_xid xid = gossip.average;
    gossip_stored(&gossip, xid);
    test_at(0, 30);
    test_at(1, 30);
    report[2].average.applied = true; /* it has adopted it, and evaluates it still */
    gossip_hear(&gossip, 2, &report[2], 30);
    gossip_finish(&gossip);
    for (int64_t now_ms = 31; now_ms < 40; now_ms++) {
        gossip_tick(&gossip, 1, now_ms);
    }
    assert_true(mix_xid_is(gossip.average, xid));
    test_at(2, 40);
    assert_true(gossip_take_tests(&gossip));
    gossip_tick(&gossip, 1, 41);
    assert_true(mix_xid_after(gossip.average, xid));
    assert_true(gossip_is_last(&gossip));
}

static void it_is_judged_without_devices_that_are_lost_or_late(void **state)
{
    (void)state;
    init(true, false);
    gossip_stored(&gossip, gossip.average);
    test_at(0, 30);
    gossip_leave(&gossip, 1);
    gossip_tick(&gossip, 1, 40);
    assert_false(gossip_take_tests(&gossip));
    const int64_t due_ms = gossip.tests_until_ms;
    assert_true(due_ms >= 2000 && gossip_due_ms(&gossip) <= due_ms);
    gossip_tick(&gossip, 1, due_ms - 1);
    assert_false(gossip_take_tests(&gossip));
    gossip_tick(&gossip, 1, due_ms);
    assert_true(gossip_take_tests(&gossip));
}

/* The next average is computed, and offered to groups of which the last has that speed. */
static void average_again(double speed)
{
    gossip_speed(&gossip, 2, speed);
    gossip_stored(&gossip, gossip.average);
    for (size_t g = 0; g < GROUPS; g++) {
        test_at(g, 30);
    }
    assert_true(gossip_take_tests(&gossip));
    gossip_tick(&gossip, 1, 40);
    for (size_t g = 0; g < GROUPS; g++) {
        report[g].average.xid = gossip.average;
        report[g].average.tested = report[g].average.applied = report[g].average.fetched = false;
        gossip_hear(&gossip, g, &report[g], 50);
    }
    gossip_tick(&gossip, 1, 50);
    report[0].average.fetched = true;
    gossip_hear(&gossip, 0, &report[0], 60);
    gossip_tick(&gossip, 1, 60);
}

/* A group that trains a batch in a minute evaluates no faster. */
static void a_slow_device_has_the_time_that_it_needs(void **state)
{
    (void)state;
    init(true, false);
    const int64_t usual_ms = gossip.tests_until_ms;
    average_again((double)BATCH / 60);
    assert_true(gossip.tests_until_ms > usual_ms + 3 * 60000);
}

static void a_device_that_claims_to_be_slow_is_not_awaited_for_ever(void **state)
{
    (void)state;
    init(true, false);
    average_again(1e-9);
    assert_int_equal(gossip.tests_until_ms, 60 + 600000);
}

/* Its device has not heard of the coordinator meanwhile, and a round may wait for the evaluation.
 */
static void a_group_that_the_order_has_not_reached_is_not_awaited(void **state)
{
    (void)state;
    init(true, false);
    average_again((double)BATCH / 60);
    const int64_t until_ms = gossip.offered_until_ms;
    assert_true(until_ms < gossip.tests_until_ms);
    gossip_stored(&gossip, gossip.average);
    test_at(0, 70);
    report[1].average.xid = report[2].average.xid = (struct mix_xid){4, 0};
    gossip_hear(&gossip, 2, &report[2], until_ms - 1); /* it may come still */
    assert_true(gossip_is_testing(&gossip, 2));
    for (size_t g = 1; g < GROUPS; g++) {
        assert_false(gossip_take_tests(&gossip));
        gossip_hear(&gossip, g, &report[g], until_ms);
        gossip_tick(&gossip, 1, until_ms);
    }
    assert_true(gossip_take_tests(&gossip));
}

/* It makes no step meanwhile. */
static void the_group_that_averages_is_known_until_the_average_is_stored(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        init(true, last);
        assert_true(gossip_is_averaging(&gossip, 0) && !gossip_is_averaging(&gossip, 1));
        gossip_tick(&gossip, 1, 5000);
        assert_true(gossip_is_averaging(&gossip, 0));
        gossip_stored(&gossip, gossip.average);
        assert_false(gossip_is_averaging(&gossip, 0));
    }
}

/* Its device may hang: for two seconds, as 96 samples at 640 a second take less. While it computes
 * the average it makes steps, and while it sends it. */
static void the_group_that_averages_makes_no_step_while_it_evaluates(void **state)
{
    (void)state;
    init(true, true);
    assert_true(gossip_is_evaluating(&gossip, 0, 2019));
    assert_false(gossip_is_evaluating(&gossip, 0, 2020));
    assert_false(gossip_is_evaluating(&gossip, 1, 20));
    assert_true(gossip_is_averaging(&gossip, 0));
    gossip_refuse(&gossip, 30);
    gossip_tick(&gossip, 1, 30);
    assert_true(gossip_is_averaging(&gossip, 1));
    assert_false(gossip_is_evaluating(&gossip, 1, 30));
}

/* Of one that begins again meanwhile, as of one that says later that it has a copy. */
static void an_average_has_the_groups_whose_copies_it_was_computed_from(void **state)
{
    (void)state;
    init(true, true);
    assert_true(gossip.in_average[0] && gossip.in_average[1] && gossip.in_average[2]);
    gossip_leave(&gossip, 1);
    gossip_enter(&gossip, 1, 2, SAMPLES, SPEED, false, 30);
    gossip_tick(&gossip, 1, 40);
    assert_true(gossip.in_average[1]);
}

static void the_last_average_is_evaluated_after_it_is_stored(void **state)
{
    (void)state;
    struct gossip_order order;
    init(true, true);
    const struct mix_xid xid = gossip.average;
    gossip_tick(&gossip, 1, 30);
    assert_false(gossip_next(&gossip, &order)); /* it travels, and may have to be sent again */
    assert_false(gossip_is_testing(&gossip, 1));
    gossip_stored(&gossip, xid);
    gossip_tick(&gossip, 1, 40);
    expect_fetches(0);
    for (size_t g = 0; g < GROUPS; g++) {
        assert_false(gossip_take_tests(&gossip));
        test_at(g, 50);
    }
    assert_true(gossip_take_tests(&gossip));
    for (int64_t now_ms = 60; now_ms < 2000000; now_ms += 100000) {
        gossip_tick(&gossip, 1, now_ms); /* it is over: no other one is begun */
    }
    assert_true(mix_xid_is(gossip.average, xid));
}

static void the_last_average_is_judged_though_all_devices_are_lost(void **state)
{
    (void)state;
    init(true, true);
    for (size_t g = 0; g < GROUPS; g++) {
        gossip_leave(&gossip, g);
    }
    gossip_stored(&gossip, gossip.average);
    gossip_tick(&gossip, 1, 40);
    gossip_tick(&gossip, 1, 50);
    assert_true(gossip_take_tests(&gossip));
}

/* A pause stops the groups before they have evaluated it. */
static void a_last_average_that_is_not_evaluated_is_followed_by_another(void **state)
{
    (void)state;
    init(true, true);
    const struct mix_xid xid = gossip.average;
    gossip_stored(&gossip, xid);
    gossip_tick(&gossip, 1, 40);
    test_at(0, 50);
    for (size_t g = 0; g < GROUPS; g++) {
        gossip_leave(&gossip, g);
    }
    gossip_repeat_last(&gossip);
    for (int64_t now_ms = 60; now_ms < 5000000; now_ms += 100000) {
        gossip_tick(&gossip, 1, now_ms);
        assert_false(gossip_take_tests(&gossip));
    }
    assert_true(mix_xid_is(gossip.average, xid)); /* nobody is there */
    gossip_enter(&gossip, 1, 2, SAMPLES, SPEED, false, 5000000);
    report[1] = (struct gossip_report){.generation = 2};
    gossip_hear(&gossip, 1, &report[1], 5000000);
    gossip_tick(&gossip, 1, 5000000);
    assert_true(mix_xid_after(gossip.average, xid) && gossip_is_last(&gossip));
}

static void what_is_said_of_another_average_counts_for_nothing(void **state)
{
    (void)state;
    init(true, false);
    gossip_stored(&gossip, gossip.average);
    report[1].average.xid.counter--;
    test_at(1, 30);
    assert_true(gossip_is_testing(&gossip, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_average_is_judged_when_it_is_stored_and_all_have_evaluated_it),
        cmocka_unit_test(no_average_is_begun_while_one_is_evaluated),
        cmocka_unit_test(it_is_judged_without_devices_that_are_lost_or_late),
        cmocka_unit_test(a_group_that_the_order_has_not_reached_is_not_awaited),
        cmocka_unit_test(a_slow_device_has_the_time_that_it_needs),
        cmocka_unit_test(a_device_that_claims_to_be_slow_is_not_awaited_for_ever),
        cmocka_unit_test(the_group_that_averages_is_known_until_the_average_is_stored),
        cmocka_unit_test(the_group_that_averages_makes_no_step_while_it_evaluates),
        cmocka_unit_test(an_average_has_the_groups_whose_copies_it_was_computed_from),
        cmocka_unit_test(the_last_average_is_evaluated_after_it_is_stored),
        cmocka_unit_test(the_last_average_is_judged_though_all_devices_are_lost),
        cmocka_unit_test(a_last_average_that_is_not_evaluated_is_followed_by_another),
        cmocka_unit_test(what_is_said_of_another_average_counts_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
