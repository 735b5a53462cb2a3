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

/* The group's job is at this step. Returns the steps that count. */
static int64_t counted(struct gossip_claims *claims, struct gossip_member *member, int64_t step,
                       bool *changed)
{
    *changed = gossip_move_lost(claims, member, step);
    gossip_claim(claims, step, 0, 0, 0);
    return member->steps + claims->reached;
}

/* The job goes back twice and on again; the coordinator restarts in between, or not. */
static void lost_steps_count_once_also_when_copies_return_them(void **state)
{
    (void)state;
    static const struct {
        int64_t step, counted;
        bool changed;
    } course[] = {{100, 100, false}, {80, 100, true},  {60, 100, true},  {60, 100, false},
                  {70, 100, true},   {100, 100, true}, {110, 110, false}};
    const size_t count = sizeof(course) / sizeof(course[0]);
    for (size_t restart = 0; restart <= count; restart++) {
        struct gossip_claims claims = {0};
        struct gossip_member member = {0};
        bool changed;
        for (size_t i = 0; i < count; i++) {
            const int64_t before = i > 0 ? course[i - 1].step : 0;
            if (i == restart) { /* it hears of the step that is in the row of the job first */
                claims = (struct gossip_claims){0};
                assert_int_equal(counted(&claims, &member, before, &changed),
                                 i > 0 ? course[i - 1].counted : 0);
            }
            assert_int_equal(counted(&claims, &member, course[i].step, &changed),
                             course[i].counted);
            assert_int_equal(changed, course[i].changed);
        }
        assert_int_equal(member.lost, 0);
    }
}

/* The coordinator restarts, and the group is as far as before its loss when it is heard again. */
static void steps_that_returned_while_the_coordinator_was_away_count_once(void **state)
{
    (void)state;
    struct gossip_claims claims = {0};
    struct gossip_member member = {0};
    bool changed;
    assert_int_equal(counted(&claims, &member, 100, &changed), 100);
    assert_int_equal(counted(&claims, &member, 80, &changed), 100);
    claims = (struct gossip_claims){0};
    assert_int_equal(counted(&claims, &member, 95, &changed), 100);
    assert_int_equal(member.lost, 5);
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
        cmocka_unit_test(lost_steps_count_once_also_when_copies_return_them),
        cmocka_unit_test(steps_that_returned_while_the_coordinator_was_away_count_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
