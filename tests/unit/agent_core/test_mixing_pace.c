/* What a group does between the step that its mix is due after and that mix. */
#include "agent/core/mixing.h"
#include "tests/support/test.h"

/* Group 0 in its third generation. */
static struct mixing mixing;

/* It copies after that step for a pair with group 1, whose copy is there then. */
static void meet(int64_t version)
{
    const struct mix_match match = {.xid = {1, 1},
                                    .kind = MIX_PAIR,
                                    .own = {.group = 0, .generation = 3},
                                    .peer = {{.group = 1, .generation = 5}},
                                    .peer_count = 1,
                                    .alpha = 0.5,
                                    .deadline_ms = 100000};
    const struct mix_member copy = {.group = 1, .generation = 5, .version = 7};
    assert_int_equal(mixing_take(&mixing, &match), MIXING_TAKEN);
    mixing_copied(&mixing, MIXING_PAIRS, version, true);
    mixing_fetched(&mixing, MIXING_PAIRS, &copy, true, NULL, 0);
}

static void a_group_that_passes_goes_on_from_there(void **state)
{
    (void)state;
    mixing_init(&mixing, 0, 1, 100); /* resumed there */
    assert_int_equal(mixing_due_at(&mixing, 10), 110);
    assert_true(mixing_wants(&mixing, 110, 10));
    mixing_pass(&mixing, 110);
    assert_int_equal(mixing_due_at(&mixing, 10), 120);
    assert_false(mixing_wants(&mixing, 110, 10));
    mixing_pass(&mixing, 90); /* an order that is repeated late */
    assert_int_equal(mixing_due_at(&mixing, 10), 120);
    mixing.applied_step = 115; /* a mix after it counts */
    assert_int_equal(mixing_due_at(&mixing, 10), 125);
}

static void a_group_of_rounds_holds_until_it_has_mixed_or_passed(void **state)
{
    (void)state;
    mixing_init(&mixing, 0, 3, 100);
    assert_true(mixing_holds_at(&mixing, 10, MIXING_GOES_ON, 0) == MIXING_NEVER);
    assert_int_equal(mixing_holds_at(&mixing, 10, MIXING_HOLDS, 0), 110);
    mixing_pass(&mixing, 110);
    assert_int_equal(mixing_holds_at(&mixing, 10, MIXING_HOLDS, 0), 120);
    meet(120);
    assert_int_equal(mixing_holds_at(&mixing, 10, MIXING_HOLDS, 0), 120); /* not yet */
    mixing_applied(&mixing, MIXING_PAIRS, 120);
    assert_int_equal(mixing_holds_at(&mixing, 10, MIXING_HOLDS, 0), 130);
}

static int64_t slows_at(int64_t now_ms)
{
    return mixing_holds_at(&mixing, 10, MIXING_SLOWS, now_ms);
}

static void a_group_slows_down_until_it_has_mixed_but_not_for_ever(void **state)
{
    (void)state;
    mixing_init(&mixing, 0, 3, 100);
    assert_int_equal(slows_at(5000), 110); /* it has not come that far */
    assert_true(mixing_slows_until_ms(&mixing, 10, 5000) == MIXING_NEVER);
    mixing_reach(&mixing, 109, 10, MIXING_SLOWS, 5000);
    assert_false(mixing_is_reached(&mixing, 10));
    mixing_reach(&mixing, 110, 10, MIXING_SLOWS, 6000);
    assert_true(mixing_is_reached(&mixing, 10));
    mixing_reach(&mixing, 111, 10, MIXING_SLOWS, 6250); /* the first time counts */
    assert_int_equal(slows_at(6000), 110);
    assert_int_equal(mixing_slows_until_ms(&mixing, 10, 6000), 6000 + MIXING_SLOW_MS);
    assert_int_equal(slows_at(6000 + MIXING_SLOW_MS - 1), 110);
    assert_int_equal(slows_at(6000 + MIXING_SLOW_MS), 111);
    assert_int_equal(mixing_slows_until_ms(&mixing, 10, 6000 + MIXING_SLOW_MS),
                     6000 + 2 * MIXING_SLOW_MS);
    assert_int_equal(slows_at(6000 + MIXING_SLOW_FOR_MS - 1),
                     110 + MIXING_SLOW_FOR_MS / MIXING_SLOW_MS - 1);
    assert_true(slows_at(6000 + MIXING_SLOW_FOR_MS) == MIXING_NEVER);
    assert_true(mixing_slows_until_ms(&mixing, 10, 6000 + MIXING_SLOW_FOR_MS) == MIXING_NEVER);
    meet(112);
    mixing_applied(&mixing, MIXING_PAIRS, 113); /* the next steps are as quick as the first */
    assert_false(mixing_is_reached(&mixing, 10));
    assert_int_equal(slows_at(9000), 123);
    mixing_reach(&mixing, 123, 10, MIXING_SLOWS, 9100);
    assert_int_equal(slows_at(9100 + MIXING_SLOW_MS), 124);
}

/* It went on for long when it is told: it neither stands still nor has waited already. */
static void a_group_slows_down_from_where_it_is(void **state)
{
    (void)state;
    mixing_init(&mixing, 0, 3, 100);
    mixing_reach(&mixing, 110, 10, MIXING_GOES_ON, 6000);
    mixing_reach(&mixing, 150, 10, MIXING_GOES_ON, 9000);
    mixing_reach(&mixing, 150, 10, MIXING_SLOWS, 9000);
    assert_int_equal(slows_at(9000), 150);
    assert_int_equal(mixing_slows_until_ms(&mixing, 10, 9000), 9000 + MIXING_SLOW_MS);
    mixing_reach(&mixing, 151, 10, MIXING_SLOWS, 9200);
    assert_int_equal(slows_at(9000 + MIXING_SLOW_MS), 151);
    assert_true(slows_at(9000 + MIXING_SLOW_FOR_MS) == MIXING_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_that_passes_goes_on_from_there),
        cmocka_unit_test(a_group_of_rounds_holds_until_it_has_mixed_or_passed),
        cmocka_unit_test(a_group_slows_down_until_it_has_mixed_but_not_for_ever),
        cmocka_unit_test(a_group_slows_down_from_where_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
