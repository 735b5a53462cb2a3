/* The steps that a group claims count as far as its plan makes them possible. */
#include "coordinator/core/gossip/gossip_claims.h"
#include "tests/support/test.h"

#define STEP 0.01 /* seconds, planned */

static void steps_at_the_planned_speed_count(void **state)
{
    (void)state;
    struct gossip_claims claims = {0};
    for (int64_t ms = 0; ms <= 60000; ms += 37) {
        gossip_claim(&claims, ms / 10, STEP, 0, ms);
        assert_int_equal(claims.reached, ms / 10);
    }
}

static void steps_of_a_group_that_is_much_faster_than_planned_count(void **state)
{
    (void)state;
    struct gossip_claims claims = {0};
    for (int64_t ms = 0; ms <= 60000; ms += 500) {
        gossip_claim(&claims, 15 * ms / 10, STEP, 0, ms);
        assert_int_equal(claims.reached, 15 * ms / 10);
    }
}

static void a_jump_counts_as_far_as_it_is_possible(void **state)
{
    (void)state;
    struct gossip_claims claims = {0};
    gossip_claim(&claims, 50, STEP, 0, 500);
    assert_int_equal(claims.reached, 50);
    gossip_claim(&claims, 1000000000, STEP, 0, 1500);
    assert_int_equal(claims.reached, 50 + GOSSIP_CLAIM_STEPS + GOSSIP_CLAIM_FACTOR * 100);
}

/* 1,000 steps per second above what is planned, in many small claims. */
static void many_small_claims_count_no_more_than_one(void **state)
{
    (void)state;
    struct gossip_claims claims = {0};
    for (int64_t ms = 1; ms <= 10000; ms++) {
        gossip_claim(&claims, 10 * ms, STEP, 0, ms);
    }
    assert_in_range(claims.reached, 16000, 16000 + GOSSIP_CLAIM_STEPS);
}

static void steps_while_the_coordinator_was_away_count(void **state)
{
    (void)state;
    struct gossip_claims claims = {0};
    gossip_claim(&claims, 6000, STEP, 0, 60000); /* restarted: the first claim that it hears */
    assert_int_equal(claims.reached, 6000);
    gossip_claim(&claims, 12000, STEP, 0, 120000);
    assert_int_equal(claims.reached, 12000);
}

static void earlier_steps_and_steps_without_a_plan_change_nothing_wrongly(void **state)
{
    (void)state;
    struct gossip_claims claims = {0};
    gossip_claim(&claims, 12, 0, 0, 0);
    assert_int_equal(claims.reached, 12);
    gossip_claim(&claims, 5, STEP, 0, 1000);
    assert_int_equal(claims.reached, 12);
    gossip_claim(&claims, 13, STEP, 0, 0); /* a clock that went back */
    assert_int_equal(claims.reached, 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_at_the_planned_speed_count),
        cmocka_unit_test(steps_of_a_group_that_is_much_faster_than_planned_count),
        cmocka_unit_test(a_jump_counts_as_far_as_it_is_possible),
        cmocka_unit_test(many_small_claims_count_no_more_than_one),
        cmocka_unit_test(steps_while_the_coordinator_was_away_count),
        cmocka_unit_test(earlier_steps_and_steps_without_a_plan_change_nothing_wrongly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
