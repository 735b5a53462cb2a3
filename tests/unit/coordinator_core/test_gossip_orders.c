/* The orders that follow reports, one by one. */
#include <math.h>

#include "coordinator/core/gossip.h"
#include "tests/support/test.h"

enum { SAMPLES = 320, BATCH = 32 };

/* Two groups, both present and heard. */
static void init_two(struct gossip *gossip)
{
    const struct gossip_rules options = {
        .seed = 1, .life = 4, .batch = BATCH, .level = true, .average_every = 1000};
    gossip_init(gossip, &options);
    for (size_t g = 0; g < 2; g++) {
        gossip_enter(gossip, g, 1, SAMPLES, 320, false, 0);
    }
}

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
    gossip_outlive(&gossip, (struct mix_xid){3, 9});
    assert_int_equal(gossip.rules.life, 4);
    gossip_outlive(&gossip, (struct mix_xid){4, 9}); /* of a life that a backup does not know */
    assert_int_equal(gossip.rules.life, 5);
    gossip_outlive(&gossip, (struct mix_xid){(int64_t)INTEGER_MAX, 1});
    assert_int_equal(gossip.rules.life, 5);
    gossip_outlive(&gossip, (struct mix_xid){9, 0});
    assert_int_equal(gossip.rules.life, 10);
    for (size_t g = 0; g < 2; g++) {
        gossip_hear(&gossip, g, &report, 0);
    }
    gossip_tick(&gossip, 1, 0);
    assert_true(gossip_next(&gossip, &order));
    assert_true(mix_xid_after(order.match.xid, (struct mix_xid){9, INT64_MAX}));
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
    assert_int_equal(order.match.deadline_ms, 15000);
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

/* Three groups that gave their copies: the number of the one that computes. */
static void expect_averager(struct gossip *gossip, size_t expected)
{
    struct gossip_report report = {.generation = 1};
    gossip->rules.average_every = 0;
    for (size_t g = 0; g < 3; g++) {
        gossip_hear(gossip, g, &report, 0);
    }
    gossip_tick(gossip, 1, 0);
    report.average.xid = gossip->average;
    report.average.copied = true;
    for (size_t g = 0; g < 3; g++) {
        expect_average(gossip, g, false, 0);
        gossip_hear(gossip, g, &report, 10);
    }
    gossip_tick(gossip, 1, 10);
    expect_average(gossip, expected, true, 3);
}

static void averages_come_after_one_mix_then_two_until_they_come_as_rarely_as_asked(void **state)
{
    (void)state;
    static const int64_t mixes[] = {1, 2, 4, 6, 6};
    static struct gossip gossip;
    const struct gossip_report report = {.generation = 1};
    for (size_t averages = 0; averages < sizeof(mixes) / sizeof(mixes[0]); averages++) {
        init_two(&gossip);
        gossip.rules.average_every = 6;
        gossip.averages = (int64_t)averages;
        for (size_t g = 0; g < 2; g++) {
            gossip_hear(&gossip, g, &report, 0);
            gossip.group[g].mixes = mixes[averages];
        }
        gossip.group[1].mixes--; /* in the mean not yet */
        gossip_tick(&gossip, 1, 0);
        assert_int_equal(gossip.phase, GOSSIP_MIXES);
        gossip.group[1].mixes++;
        gossip_tick(&gossip, 1, 0);
        assert_int_equal(gossip.phase, GOSSIP_GATHERS);
    }
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
    for (size_t g = 0; g < 3; g++) {
        expect_average(&gossip, g, false, 0);
    }
    report.average.xid = gossip.average;
    report.average.copied = true;
    gossip_hear(&gossip, 0, &report, 10);
    gossip_hear(&gossip, 2, &report, 10);
    gossip_tick(&gossip, 1, 1999);
    assert_false(gossip_next(&gossip, &order));
    gossip_tick(&gossip, 1, 2000);
    expect_average(&gossip, 0, true, 2); /* the faster one */
    gossip_leave(&gossip, 0);
    gossip_tick(&gossip, 1, 2010);
    expect_average(&gossip, 2, true, 1);
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
        expect_average(&gossip, 0, false, 0);
        expect_average(&gossip, 1, false, 0);
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
        cmocka_unit_test(a_group_is_matched_only_after_its_first_report),
        cmocka_unit_test(groups_are_weighed_by_accuracy_once_both_losses_are_known),
        cmocka_unit_test(measured_speeds_and_links_set_steps_and_patience),
        cmocka_unit_test(groups_with_a_fast_link_meet_more_often),
        cmocka_unit_test(averages_come_after_one_mix_then_two_until_they_come_as_rarely_as_asked),
        cmocka_unit_test(the_best_connected_group_computes_the_average_then_the_fastest),
        cmocka_unit_test(an_avoided_group_computes_the_average_only_if_no_other_can),
        cmocka_unit_test(an_average_goes_on_without_those_that_are_late_or_gone),
        cmocka_unit_test(the_last_average_is_begun_again_if_its_averager_is_lost),
        cmocka_unit_test(another_group_computes_the_last_average_if_what_was_sent_is_none),
        cmocka_unit_test(a_match_is_named_after_all_that_groups_know),
        cmocka_unit_test(a_successor_takes_over_the_state_of_its_partner),
        cmocka_unit_test(a_successor_that_has_mixed_is_none_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
