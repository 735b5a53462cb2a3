/* Averages, order by order. */
#include "coordinator/core/gossip/gossip.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_core/two_groups.h"

static void expect_average(struct gossip *gossip, size_t group, bool averages, size_t peers)
{
    struct gossip_order order;
    assert_true(gossip_next(gossip, &order));
    assert_int_equal(order.group, group);
    assert_int_equal(order.match.kind, MIX_AVERAGE);
    assert_int_equal(order.match.averages, averages);
    assert_int_equal(order.match.peer_count, peers);
    assert_true(order.match.alpha == 0);
}

static void expect_average_of(struct gossip *gossip, size_t group, size_t peers)
{
    struct gossip_order order;
    assert_true(gossip_next(gossip, &order));
    assert_int_equal(order.group, group);
    assert_true(order.match.averages);
    assert_int_equal(order.match.peer_count, peers);
}

/* Three groups, which then have given their copies: who computes their average. */
static void expect_averager(struct gossip *gossip, size_t expected)
{
    struct gossip_report report = {.generation = 1};
    gossip->rules.average_every = 0;
    for (size_t g = 0; g < 3; g++) {
        gossip_hear(gossip, g, &report, 0);
    }
    gossip_tick(gossip, 1, 0);
    for (size_t g = 0; g < 3; g++) {
        if (g != expected) {
            expect_average(gossip, g, false, 0);
        }
    }
    expect_average(gossip, expected, true, 3);
    report.average.xid = gossip->average;
    report.average.copied = true;
    for (size_t g = 0; g < 3; g++) {
        gossip_hear(gossip, g, &report, 10);
    }
    gossip_tick(gossip, 1, 10);
}

static void an_average_comes_when_the_groups_have_mixed_often_enough_in_the_mean(void **state)
{
    (void)state;
    static struct gossip gossip;
    const struct gossip_report report = {.generation = 1};
    init_two(&gossip);
    gossip.rules.average_every = 6;
    for (size_t g = 0; g < 2; g++) {
        gossip_hear(&gossip, g, &report, 0);
        gossip.group[g].mixes = g == 0 ? 7 : 4;
    }
    gossip_tick(&gossip, 1, 0);
    assert_int_equal(gossip.phase, GOSSIP_MIXES);
    gossip.group[1].mixes++;
    gossip_tick(&gossip, 1, 0);
    assert_int_equal(gossip.phase, GOSSIP_COMPUTES);
}

static void the_best_connected_group_computes_the_average_then_the_fastest(void **state)
{
    (void)state;
    static struct gossip gossip;
    for (size_t slow_links = 0; slow_links < 2; slow_links++) {
        init_two(&gossip);
        gossip_enter(&gossip, 2, 1, SAMPLES, 320, false, 0);
        gossip_speed(&gossip, 2, 640);
        if (slow_links) {
            gossip_link(&gossip, 0, 2, 1);
        }
        expect_averager(&gossip, slow_links ? 1 : 2);
    }
}

static void an_avoided_group_computes_the_average_only_if_no_other_can(void **state)
{
    (void)state;
    static struct gossip gossip;
    for (size_t alone = 0; alone < 2; alone++) {
        init_two(&gossip);
        gossip_enter(&gossip, 2, 1, SAMPLES, 640, false, 0);
        gossip_avoid(&gossip, 2);
        expect_averager(&gossip, 0);
        assert_true(gossip_had_choice(&gossip));
        for (size_t g = 0; g < 1 + alone; g++) { /* who computes is lost */
            gossip_leave(&gossip, g);
            gossip_tick(&gossip, 1, 20);
            expect_average(&gossip, 1 + g, true, 2 - g);
        }
        assert_true(gossip_had_choice(&gossip) == (alone == 0));
    }
    init_two(&gossip);
    gossip_enter(&gossip, 2, 1, SAMPLES, 640, false, 0);
    gossip_avoid(&gossip, 2);
    gossip_avoid(&gossip, LEVELS_GROUPS_MAX);
    expect_averager(&gossip, 2);
}

/* Three groups; averages are due all the time. Group 1 gives no copy. */
static void an_average_goes_on_without_those_that_are_late_or_gone(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_order order;
    struct gossip_report report = {.generation = 1};
    init_two(&gossip);
    gossip_enter(&gossip, 2, 1, SAMPLES, 300, false, 0);
    gossip.rules.average_every = 0;
    for (size_t g = 0; g < 3; g++) {
        gossip_hear(&gossip, g, &report, 0);
    }
    gossip_tick(&gossip, 1, 0);
    expect_average(&gossip, 1, false, 0);
    expect_average(&gossip, 2, false, 0);
    expect_average(&gossip, 0, true, 3); /* the first of the fastest */
    report.average.xid = gossip.average;
    report.average.copied = true;
    gossip_hear(&gossip, 0, &report, 10);
    gossip_hear(&gossip, 2, &report, 10);
    gossip_tick(&gossip, 1, 1999);
    assert_false(gossip_next(&gossip, &order));
    gossip_tick(&gossip, 1, 2000);
    expect_average(&gossip, 2, true, 2);
    gossip_leave(&gossip, 0);
    gossip_tick(&gossip, 1, 2010);
    assert_false(gossip_next(&gossip, &order)); /* its copy may be there */
    report.average.fetched = true;
    gossip_hear(&gossip, 2, &report, 2020);
    assert_int_equal(gossip.averages, 1);
    const struct mix_xid before = gossip.average;
    for (int64_t i = 0; i < 3; i++) {
        gossip_tick(&gossip, 1, 2030 + i);
    }
    assert_true(mix_xid_is(gossip.average, before)); /* its author still sends it */
    assert_true(gossip_due_ms(&gossip) > 2040);
    gossip_stored(&gossip, before);
    gossip_tick(&gossip, 1, 2040);
    assert_true(mix_xid_after(gossip.average, before)); /* the next one has begun */
}

static void an_average_begins_again_when_a_group_is_lost_before_it_gave_its_copy(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_report report = {.generation = 1};
    struct gossip_order order;
    init_two(&gossip);
    gossip_enter(&gossip, 2, 1, SAMPLES, 300, false, 0);
    gossip.rules.average_every = 0;
    for (size_t g = 0; g < 3; g++) {
        gossip_hear(&gossip, g, &report, 0);
    }
    gossip_tick(&gossip, 1, 0);
    while (gossip_next(&gossip, &order)) {
    }
    report.average.xid = gossip.average;
    report.average.copied = true;
    gossip_hear(&gossip, 0, &report, 10);
    gossip_hear(&gossip, 2, &report, 10);
    gossip_leave(&gossip, 1);
    gossip_enter(&gossip, 1, 2, SAMPLES, 320, true, 20);
    gossip_tick(&gossip, 1, 20);
    expect_average(&gossip, 2, true, 2);
    assert_false(gossip.in_average[1]);
}

/* ---- slow groups ---- */

/* Three groups that have been heard. The steps of the last one take so many seconds. */
static void init_slow(struct gossip *gossip, double seconds)
{
    const struct gossip_report report = {.generation = 1};
    init_two(gossip);
    gossip_enter(gossip, 2, 1, SAMPLES, BATCH / seconds, false, 0);
    gossip->rules.average_every = 0;
    for (size_t g = 0; g < 3; g++) {
        gossip_hear(gossip, g, &report, 0);
    }
}

static void give_copy(struct gossip *gossip, size_t group, int64_t now_ms)
{
    struct gossip_report report = {.generation = 1};
    report.average.xid = gossip->average;
    report.average.copied = true;
    gossip_hear(gossip, group, &report, now_ms);
}

static void begin_average(struct gossip *gossip)
{
    struct gossip_order order;
    gossip_tick(gossip, 1, 0);
    while (gossip_next(gossip, &order)) {
    }
    assert_int_equal(gossip->averager, 0);
}

static void an_average_waits_for_the_end_of_the_longest_step(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_order order;
    init_slow(&gossip, 5);
    gossip.rules.adopts = true;
    begin_average(&gossip);
    give_copy(&gossip, 0, 10);
    give_copy(&gossip, 1, 10);
    gossip_tick(&gossip, 1, 12000);
    assert_false(gossip_next(&gossip, &order));
    give_copy(&gossip, 2, 12010);
    gossip_tick(&gossip, 1, 14009);
    assert_false(gossip_next(&gossip, &order));
    gossip_tick(&gossip, 1, 14010); /* only the way of the copies was left */
    expect_average_of(&gossip, 1, 3);
    struct gossip_report report = {.generation = 1};
    report.average.xid = gossip.average;
    report.average.fetched = true;
    gossip_hear(&gossip, 1, &report, 14020);
    gossip_tick(&gossip, 1, 14020);
    for (size_t i = 0; i < 2; i++) { /* to adopt it at the end of a step, too */
        assert_true(gossip_next(&gossip, &order));
        assert_int_equal(order.match.kind, MIX_ADOPT);
        assert_true(order.match.deadline_ms >= 14020 + 10000);
    }
}

/* One that was frozen for a minute has a mean of many seconds a step: each wait would be longer
 * than the one before. */
static void a_group_that_looks_very_slow_does_not_hold_up_an_average(void **state)
{
    (void)state;
    static struct gossip gossip;
    init_slow(&gossip, 60);
    begin_average(&gossip);
    give_copy(&gossip, 0, 10);
    give_copy(&gossip, 1, 10);
    gossip_tick(&gossip, 1, 16000);
    expect_average_of(&gossip, 1, 2);
}

static void the_last_average_waits_for_groups_that_are_there_as_long_as_a_stop(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_order order;
    for (size_t slow = 0; slow < 2; slow++) {
        const int64_t stop_ms = slow ? 80000 : 30000; /* twenty steps */
        init_slow(&gossip, slow ? 4 : 1);
        gossip_finish(&gossip);
        begin_average(&gossip);
        give_copy(&gossip, 0, 10);
        give_copy(&gossip, 1, 10);
        gossip_tick(&gossip, 1, stop_ms - 1);
        assert_false(gossip_next(&gossip, &order));
        gossip_tick(&gossip, 1, stop_ms);
        expect_average_of(&gossip, 1, 2);
        assert_false(gossip.in_average[2]);
    }
}

/* Of two groups one gave no copy in its time: nobody is left to try again. */
static void the_last_average_of_one_of_two_groups_waits_once(void **state)
{
    (void)state;
    static struct gossip gossip;
    const struct gossip_report report = {.generation = 1};
    init_two(&gossip);
    gossip_hear(&gossip, 0, &report, 0);
    gossip_hear(&gossip, 1, &report, 0);
    gossip_finish(&gossip);
    begin_average(&gossip);
    give_copy(&gossip, 0, 10);
    gossip_tick(&gossip, 1, 29999);
    assert_true(gossip.in_average[1]);
    gossip_tick(&gossip, 1, 30000); /* it is abandoned */
    gossip_tick(&gossip, 1, 30001);
    expect_average_of(&gossip, 0, 1);
    assert_true(gossip_is_last(&gossip) && !gossip.in_average[1]);
}

static void a_group_that_is_lost_at_the_end_leaves_no_other_one_out(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_order order;
    init_slow(&gossip, 4);
    gossip_finish(&gossip);
    begin_average(&gossip);
    give_copy(&gossip, 1, 10);
    gossip_leave(&gossip, 0);
    gossip_tick(&gossip, 1, 20);
    expect_average_of(&gossip, 1, 2);
    assert_true(gossip.in_average[2]); /* it is still to give its copy */
    gossip_tick(&gossip, 1, 39999);
    assert_false(gossip_next(&gossip, &order));
    give_copy(&gossip, 2, 39999);
    gossip_leave(&gossip, 2);
    gossip_tick(&gossip, 1, 40000);
    assert_false(gossip_next(&gossip, &order)); /* its copy may be there */
}

/* Say that the group that computes has given up for want of a copy; who computes next. */
static void give_up(struct gossip *gossip, size_t lacks, int64_t now_ms)
{
    struct gossip_report report = {.generation = 1};
    report.average.xid = gossip->average;
    report.average.copied = report.average.failed = report.average.has_lacks = true;
    report.average.lacks = (int64_t)lacks;
    gossip_hear(gossip, gossip->averager, &report, now_ms);
    gossip_tick(gossip, 1, now_ms);
}

/* Three groups, of which the first is to compute and finds its own copy bad. */
static void averages_do_without_a_copy_that_its_own_group_finds_bad(void **state)
{
    (void)state;
    static struct gossip gossip;
    init_two(&gossip);
    gossip_enter(&gossip, 2, 1, SAMPLES, 300, false, 0);
    expect_averager(&gossip, 0);
    give_up(&gossip, 0, 20);
    expect_average(&gossip, 1, true, 2);
    assert_false(gossip.in_average[0]);
    assert_int_equal(gossip.group[1].lacked, 0); /* whose copy it would have fetched first */
}

static void averages_do_without_a_copy_that_two_groups_could_not_get(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_report report = {.generation = 1};
    init_two(&gossip);
    gossip_enter(&gossip, 2, 1, SAMPLES, 300, false, 0);
    gossip_enter(&gossip, 3, 1, SAMPLES, 280, false, 0);
    gossip_hear(&gossip, 3, &report, 0);
    gossip_finish(&gossip);
    for (size_t g = 0; g < 3; g++) {
        gossip_hear(&gossip, g, &report, 0);
    }
    gossip_tick(&gossip, 1, 0);
    for (size_t g = 1; g < 4; g++) {
        expect_average(&gossip, g, false, 0);
    }
    expect_average(&gossip, 0, true, 4);
    report.average.xid = gossip.average;
    report.average.copied = true;
    for (size_t g = 0; g < 4; g++) {
        gossip_hear(&gossip, g, &report, 10);
    }
    give_up(&gossip, 2, 20);
    expect_average(&gossip, 1, true, 4); /* the first one may be the cause */
    give_up(&gossip, 2, 30);
    expect_average(&gossip, 3, true, 3);
    assert_false(gossip.in_average[2]);
    report.average.fetched = true;
    gossip_hear(&gossip, 3, &report, 40);
    assert_int_equal(gossip.averages, 1);
    assert_int_equal(gossip.group[2].lacked, 1); /* the next one asks it again */
}

/* All have tried it: the next average does without the copy, so that the job ends. */
static void a_copy_that_nobody_can_get_does_not_hold_up_the_last_average(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_order order;
    init_two(&gossip);
    gossip_enter(&gossip, 2, 1, SAMPLES, 300, false, 0);
    gossip_finish(&gossip);
    expect_averager(&gossip, 0);
    give_up(&gossip, 2, 20);
    expect_average(&gossip, 1, true, 3);
    give_up(&gossip, 2, 30);
    assert_false(gossip_next(&gossip, &order)); /* both have tried, and it is not asked */
    gossip_tick(&gossip, 1, 40);
    expect_average(&gossip, 1, false, 0);
    expect_average(&gossip, 0, true, 2);
    assert_true(gossip_is_last(&gossip) && !gossip.in_average[2]);
}

/* After its adoption all groups are together. */
static void an_adopted_average_counts_as_a_mix(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_report report = {.generation = 1};
    init_two(&gossip);
    gossip_enter(&gossip, 2, 1, SAMPLES, 300, false, 0);
    gossip.rules.adopts = true;
    gossip.rules.average_every = 0;
    for (size_t g = 0; g < 3; g++) {
        gossip_hear(&gossip, g, &report, 0);
    }
    gossip_tick(&gossip, 1, 90000);
    report.average.xid = gossip.average;
    report.average.copied = report.average.fetched = true;
    gossip_hear(&gossip, 0, &report, 90010);
    assert_true(gossip_missed_periods(&gossip, 1, 90020) > 100);
    report.average.fetched = false;
    report.average.applied = true;
    gossip_hear(&gossip, 1, &report, 90020);
    assert_int_equal(gossip_missed_periods(&gossip, 1, 90020), 0);
}

/* The group that has computed it is lost while it sends it; in the second round it is back before
 * anybody looks. */
static void the_last_average_is_begun_again_if_its_averager_is_lost(void **state)
{
    (void)state;
    static struct gossip gossip;
    for (size_t returns = 0; returns < 2; returns++) {
        struct gossip_report report = {.generation = 1};
        struct gossip_order order;
        init_two(&gossip);
        gossip_enter(&gossip, 2, 1, SAMPLES, 640, false, 0);
        gossip_finish(&gossip);
        expect_averager(&gossip, 2);
        report.average.xid = gossip.average;
        report.average.copied = report.average.fetched = true;
        gossip_hear(&gossip, 2, &report, 20);
        gossip_tick(&gossip, 1, 20);
        gossip_tick(&gossip, 1, 5000);
        assert_false(gossip_next(&gossip, &order)); /* it travels */
        gossip_leave(&gossip, 2);
        if (returns) {
            gossip_enter(&gossip, 2, 2, SAMPLES, 640, true, 5010);
        }
        gossip_tick(&gossip, 1, 5020);
        gossip_tick(&gossip, 1, 5030);
        assert_true(mix_xid_after(gossip.average, report.average.xid));
        expect_average(&gossip, 1, false, 0);
        expect_average(&gossip, 0, true, 2);
        assert_true(gossip_is_last(&gossip));
    }
}

static void another_group_computes_the_last_average_if_what_was_sent_is_none(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_report report = {.generation = 1};
    struct gossip_order order;
    init_two(&gossip);
    gossip_enter(&gossip, 2, 1, SAMPLES, 640, false, 0);
    gossip_finish(&gossip);
    expect_averager(&gossip, 2);
    report.average.xid = gossip.average;
    report.average.copied = report.average.fetched = true;
    gossip_hear(&gossip, 2, &report, 20);
    gossip_tick(&gossip, 1, 20);
    gossip_refuse(&gossip, 30);
    gossip_tick(&gossip, 1, 30);
    expect_average(&gossip, 0, true, 3);
    gossip_hear(&gossip, 0, &report, 40);
    gossip_tick(&gossip, 1, 40);
    gossip_refuse(&gossip, 50);
    gossip_tick(&gossip, 1, 50);
    expect_average(&gossip, 1, true, 3);
    gossip_hear(&gossip, 1, &report, 60);
    gossip_tick(&gossip, 1, 60);
    gossip_refuse(&gossip, 70); /* all have tried it: not at once again */
    gossip_tick(&gossip, 1, 70);
    assert_false(gossip_next(&gossip, &order));
    assert_true(mix_xid_is(gossip.average, report.average.xid));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_average_comes_when_the_groups_have_mixed_often_enough_in_the_mean),
        cmocka_unit_test(the_best_connected_group_computes_the_average_then_the_fastest),
        cmocka_unit_test(an_avoided_group_computes_the_average_only_if_no_other_can),
        cmocka_unit_test(an_average_goes_on_without_those_that_are_late_or_gone),
        cmocka_unit_test(an_average_begins_again_when_a_group_is_lost_before_it_gave_its_copy),
        cmocka_unit_test(an_average_waits_for_the_end_of_the_longest_step),
        cmocka_unit_test(a_group_that_looks_very_slow_does_not_hold_up_an_average),
        cmocka_unit_test(the_last_average_waits_for_groups_that_are_there_as_long_as_a_stop),
        cmocka_unit_test(the_last_average_of_one_of_two_groups_waits_once),
        cmocka_unit_test(a_group_that_is_lost_at_the_end_leaves_no_other_one_out),
        cmocka_unit_test(averages_do_without_a_copy_that_its_own_group_finds_bad),
        cmocka_unit_test(averages_do_without_a_copy_that_two_groups_could_not_get),
        cmocka_unit_test(a_copy_that_nobody_can_get_does_not_hold_up_the_last_average),
        cmocka_unit_test(an_adopted_average_counts_as_a_mix),
        cmocka_unit_test(the_last_average_is_begun_again_if_its_averager_is_lost),
        cmocka_unit_test(another_group_computes_the_last_average_if_what_was_sent_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
