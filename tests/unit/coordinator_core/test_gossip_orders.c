/* The orders that follow reports, one by one. */
#include <math.h>

#include "coordinator/core/gossip/gossip.h"
#include "coordinator/core/gossip/gossip_life.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_core/two_groups.h"

#define CORE_SEED 1

static void a_group_is_matched_only_after_its_first_report(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_order order;
    struct gossip_report report = {.generation = 1, .wants = true};
    init_two(&gossip);
    gossip_hear(&gossip, 0, &report, 0);
    gossip_tick(&gossip, 1, 0);
    assert_false(gossip_next(&gossip, &order));
    report.pair.xid = (struct mix_xid){3, 9}; /* open since an earlier life */
    report.pair.open = true;
    gossip_hear(&gossip, 1, &report, 0);
    gossip_tick(&gossip, 1, 10);
    assert_false(gossip_next(&gossip, &order));
    report.pair.open = false;
    report.generation = 2; /* of an ended incarnation */
    gossip_hear(&gossip, 1, &report, 20);
    gossip_tick(&gossip, 1, 20);
    assert_false(gossip_next(&gossip, &order));
    report.generation = 1;
    gossip_hear(&gossip, 1, &report, 30);
    gossip_tick(&gossip, 7, 30);
    for (size_t side = 0; side < 2; side++) {
        assert_true(gossip_next(&gossip, &order));
        assert_int_equal(order.group, side);
        assert_true(mix_xid_is(order.match.xid, (struct mix_xid){4, 1}));
        assert_int_equal(order.match.rate_step, 7);
        assert_int_equal(order.match.deadline_ms, 30 + 2000);
        assert_true(order.match.alpha == 0.5);
    }
    assert_false(gossip_next(&gossip, &order));
    gossip_tick(&gossip, 7, 2030); /* it expired; nobody has asked again */
    assert_false(gossip_next(&gossip, &order));
}

static void a_match_is_named_after_all_that_groups_know(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_order order;
    struct gossip_report report = {.generation = 1, .wants = true};
    init_two(&gossip);
    gossip_outlive(&gossip, CORE_SEED, (struct mix_xid){3, 9});
    assert_int_equal(gossip.rules.life, 4);
    gossip_outlive(&gossip, CORE_SEED, (struct mix_xid){4, 9}); /* of a life that a backup lost */
    const int64_t later = gossip.rules.life;
    assert_true(later > 4);
    gossip_outlive(&gossip, CORE_SEED, (struct mix_xid){(int64_t)INTEGER_MAX, 1});
    assert_int_equal(gossip.rules.life, later);
    gossip_outlive(&gossip, CORE_SEED, (struct mix_xid){later + 5, 0});
    assert_true(gossip.rules.life > later + 5);
    for (size_t g = 0; g < 2; g++) {
        gossip_hear(&gossip, g, &report, 0);
    }
    gossip_tick(&gossip, 1, 0);
    assert_true(gossip_next(&gossip, &order));
    assert_true(mix_xid_after(order.match.xid, (struct mix_xid){later + 5, INT64_MAX}));
}

/* Backups are restored, and the devices that knew the lives since have restarted. */
static void starts_after_the_same_backup_have_different_lives(void **state)
{
    (void)state;
    int64_t life[64];
    for (uint64_t start = 0; start < 64; start++) {
        life[start] = gossip_life_after(start, 17);
        assert_in_range(life[start], 18, 17 + LIVES_SKIPPED_MAX);
        assert_int_equal(life[start], gossip_life_after(start, 17));
        for (uint64_t earlier = 0; earlier < start; earlier++) {
            assert_int_not_equal(life[start], life[earlier]);
        }
    }
}

static void a_successor_takes_over_the_state_of_its_partner(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_order order;
    const struct gossip_report report = {.generation = 1, .wants = true};
    struct gossip_report applied = {.generation = 2};
    init_two(&gossip);
    gossip_enter(&gossip, 1, 2, SAMPLES, 320, true, 0);
    gossip_hear(&gossip, 0, &report, 0);
    gossip_hear(&gossip, 1, &applied, 0);
    gossip_tick(&gossip, 1, 0);
    assert_true(gossip_next(&gossip, &order) && order.match.alpha == 0);
    assert_true(gossip_next(&gossip, &order) && order.match.alpha == 1);
    applied.pair.xid = order.match.xid;
    applied.pair.applied = true;
    gossip_hear(&gossip, 1, &applied, 100);
    assert_false(gossip.group[1].successor);
}

/* A coordinator that has restarted does not know it from the rows. */
static void a_successor_that_has_mixed_is_none_any_more(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_order order;
    const struct gossip_report wants = {.generation = 1, .wants = true};
    const struct gossip_report mixed = {.generation = 2, .mixed = true};
    init_two(&gossip);
    gossip_enter(&gossip, 1, 2, SAMPLES, 320, true, 0);
    gossip_hear(&gossip, 0, &wants, 0);
    gossip_hear(&gossip, 1, &mixed, 0);
    gossip_tick(&gossip, 1, 0);
    assert_true(gossip_next(&gossip, &order) && order.match.alpha == 0.5);
    assert_true(gossip_next(&gossip, &order) && order.match.alpha == 0.5);
}

/* Let group 0 ask, and check by how much it moves; both copies are applied. */
static void expect_alpha(struct gossip *gossip, struct gossip_report report[2], double expected)
{
    struct gossip_order order;
    report[0].wants = true;
    for (size_t g = 0; g < 2; g++) {
        gossip_hear(gossip, g, &report[g], 0);
    }
    gossip_tick(gossip, 1, 0);
    for (size_t g = 0; g < 2; g++) {
        assert_true(gossip_next(gossip, &order));
        assert_int_equal(order.group, g);
        assert_true(fabs(order.match.alpha - (g == 0 ? expected : 1 - expected)) < 1e-9);
        report[g].pair.xid = order.match.xid;
        report[g].pair.applied = true;
    }
}

static void groups_are_weighed_by_accuracy_once_both_losses_are_known(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_report report[] = {{.generation = 1}, {.generation = 1}};
    init_two(&gossip);
    gossip.averages = 100; /* the early ones are over */
    gossip.rules.weights = LEVELS_ACCURACY;
    expect_alpha(&gossip, report, 0.5);
    report[0].average.has_loss = true;
    report[0].average.loss = 1.05;
    expect_alpha(&gossip, report, 0.5);
    report[1].average.has_loss = true;
    report[1].average.loss = NAN; /* of a group that diverges */
    expect_alpha(&gossip, report, 0.5);
    report[1].average.loss = -1e30; /* claimed: it would take over every other group */
    expect_alpha(&gossip, report, 0.5);
    report[1].average.loss = 1;
    expect_alpha(&gossip, report, 1 / (1 + exp(-0.5)));
    report[0].average.has_loss = false; /* it has copied again */
    expect_alpha(&gossip, report, 1 / (1 + exp(-0.5)));
    gossip.rules.weights = LEVELS_EQUAL;
    expect_alpha(&gossip, report, 0.5);
    gossip.rules.weights = LEVELS_ACCURACY;
    gossip_enter(&gossip, 0, 1, SAMPLES, 320, false, 0); /* again: it knows nothing */
    expect_alpha(&gossip, report, 0.5);
}

/* Groups 0 and 1 make a step in 0.1 s. */
static void measured_speeds_and_links_set_steps_and_patience(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_order order;
    const struct gossip_report report = {.generation = 1, .wants = true};
    init_two(&gossip);
    assert_int_equal(gossip_steps(&gossip, 0), 2); /* two copies of 0.1 s */
    gossip_speed(&gossip, 1, 32);
    gossip_level(&gossip);
    assert_int_equal(gossip_steps(&gossip, 0), 10);
    assert_int_equal(gossip_steps(&gossip, 1), 1);
    gossip_link(&gossip, 1, 0, 5);
    gossip_level(&gossip);
    assert_int_equal(gossip_steps(&gossip, 0), 100);
    assert_int_equal(gossip_steps(&gossip, 1), 10);
    for (size_t g = 0; g < 2; g++) {
        gossip_hear(&gossip, g, &report, 0);
    }
    gossip_tick(&gossip, 1, 0);
    assert_true(gossip_next(&gossip, &order));
    assert_int_equal(order.match.deadline_ms, 3 * (5000 + 1000)); /* of a copy and a step */
}

static void a_group_with_few_samples_slows_down_before_its_mix(void **state)
{
    (void)state;
    static struct gossip gossip;
    init_two(&gossip);
    gossip_speed(&gossip, 1, 1);
    gossip_level(&gossip); /* a group is at most a sixteenth as fast as the median one */
    assert_false(gossip_slows(&gossip, 0));
    gossip_enter(&gossip, 0, 2, 2 * BATCH, 320, false, 0);
    assert_int_equal(gossip_steps(&gossip, 0), 8);
    assert_true(gossip_slows(&gossip, 0));
    assert_false(gossip_slows(&gossip, 1));
    gossip.rules.rounds = true; /* it holds */
    assert_int_equal(gossip_steps(&gossip, 0), 8);
    assert_false(gossip_slows(&gossip, 0));
    gossip.rules.level = false;
    assert_int_equal(gossip_steps(&gossip, 0), 2);
}

static void groups_with_a_fast_link_meet_more_often(void **state)
{
    (void)state;
    static struct gossip gossip;
    init_two(&gossip);
    gossip_enter(&gossip, 2, 1, SAMPLES, 320, false, 0);
    assert_true(gossip.chance[0][1] == gossip.chance[0][2]);
    gossip_link(&gossip, 2, 0, 0.01);
    gossip_level(&gossip);
    assert_true(gossip.chance[0][2] > 2 * gossip.chance[0][1]);
    assert_true(gossip.chance[2][0] > 2 * gossip.chance[2][1]);
    assert_true(gossip.chance[1][0] == gossip.chance[1][2]);
}

/* It moves a fresh one by 4 % of their difference. */
static void a_group_that_missed_a_hundred_periods_gives_way(void **state)
{
    (void)state;
    static struct gossip gossip;
    struct gossip_order order;
    const struct gossip_report wants = {.generation = 1, .wants = true};
    init_two(&gossip);
    const int64_t now_ms = (int64_t)ceil(gossip.period * 101 * 1000);
    gossip.group[0].last_mix_ms = now_ms;
    assert_int_equal(gossip_missed_periods(&gossip, 1, now_ms), 100);
    gossip_hear(&gossip, 0, &wants, now_ms);
    gossip_hear(&gossip, 1, &wants, now_ms);
    gossip_tick(&gossip, 1, now_ms);
    for (size_t g = 0; g < 2; g++) {
        assert_true(gossip_next(&gossip, &order));
        assert_true(fabs(order.match.alpha - (g == 0 ? 0.04 : 0.96)) < 1e-9);
    }
}

/* All have given their copies, and the averager has computed it: it travels. */
static struct mix_xid compute_last(struct gossip *gossip, int64_t now_ms)
{
    struct gossip_report report = {.generation = 1};
    struct gossip_order order;
    while (gossip_next(gossip, &order)) {
    }
    report.average.xid = gossip->average;
    report.average.copied = true;
    for (size_t g = 0; g < gossip->count; g++) {
        gossip_hear(gossip, g, &report, now_ms);
    }
    gossip_tick(gossip, 1, now_ms);
    report.average.fetched = true;
    gossip_hear(gossip, gossip->averager, &report, now_ms);
    gossip_tick(gossip, 1, now_ms);
    return gossip->average;
}

static void the_last_average_has_more_time_each_time_it_has_not_arrived(void **state)
{
    (void)state;
    static struct gossip gossip;
    int64_t now_ms = 0, limit_ms = 600000;
    init_two(&gossip);
    gossip_finish(&gossip);
    gossip_tick(&gossip, 1, now_ms);
    for (int i = 0; i < 4; i++, limit_ms *= 2) {
        const struct mix_xid xid = compute_last(&gossip, now_ms);
        gossip_tick(&gossip, 1, now_ms + limit_ms - 1);
        assert_true(mix_xid_is(gossip.average, xid));
        now_ms += limit_ms;
        gossip_tick(&gossip, 1, now_ms);
        gossip_tick(&gossip, 1, now_ms);
        assert_true(mix_xid_after(gossip.average, xid));
    }
    gossip_stored(&gossip, compute_last(&gossip, now_ms));
    assert_int_equal(gossip.overdue, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_average_has_more_time_each_time_it_has_not_arrived),
        cmocka_unit_test(a_group_is_matched_only_after_its_first_report),
        cmocka_unit_test(a_match_is_named_after_all_that_groups_know),
        cmocka_unit_test(starts_after_the_same_backup_have_different_lives),
        cmocka_unit_test(a_successor_takes_over_the_state_of_its_partner),
        cmocka_unit_test(a_successor_that_has_mixed_is_none_any_more),
        cmocka_unit_test(groups_are_weighed_by_accuracy_once_both_losses_are_known),
        cmocka_unit_test(measured_speeds_and_links_set_steps_and_patience),
        cmocka_unit_test(groups_with_a_fast_link_meet_more_often),
        cmocka_unit_test(a_group_with_few_samples_slows_down_before_its_mix),
        cmocka_unit_test(a_group_that_missed_a_hundred_periods_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
