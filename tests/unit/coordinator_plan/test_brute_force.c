/* The planner against trying everything: test_plan_brute_force [CASES PLAYS], cases of at most so
 * many plays. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/test.h"
#include "tests/unit/coordinator_plan/sample.h"

#define TIE_ROUNDING 1e-9

static int cases = 300;
static double plays_max = 4000;
static struct partition_scratch *scratch;
static struct sample sample;

static bool is_possible(const struct partition_problem *problem)
{
    const size_t units = problem->unit_count, devices = problem->device_count;
    return problem->stages_min <= problem->stages_max && problem->stages_min <= units &&
           problem->stages_min <= devices;
}

/* At most 10 units, 5 devices, 6 micro-batches, 3 codecs. */
static void draw_case(struct draws *draws)
{
    do {
        sample_draw(&sample, draws, 10, 5, 6, 3);
        sample.problem.work_max = 1e12;
    } while (!is_possible(&sample.problem) || sample_plays(&sample) > plays_max);
}

static void the_fastest_plan_equals_brute_force(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 11);
    int infeasible = 0;
    for (int i = 0; i < cases; i++) {
        struct partition_plan plan;
        struct err err = {0};
        draw_case(&draws);
        sample.problem.order = i % 4 == 0 ? PARTITION_STRICT : PARTITION_GREEDY;
        const struct sample_answer expected = sample_brute_force(&sample);
        int rc = partition_solve(&sample.problem, scratch, &plan, &err);
        if (!isfinite(expected.step_seconds)) {
            assert_int_equal(rc, ERR_MEMORY);
            infeasible++;
            continue;
        }
        assert_ok(rc, &err);
        assert_true(plan.optimal);
        assert_close(&plan.lower_seconds, &expected.step_seconds, 1, 1e-9);
        assert_true(plan.step_seconds <=
                    expected.step_seconds * (1 + PARTITION_TIE + TIE_ROUNDING));
        /* The fewest devices with which a plan is as fast. */
        for (size_t k = 1; k < plan.stage_count; k++) {
            assert_true(expected.least[k] >
                        expected.step_seconds * (1 + PARTITION_TIE - TIE_ROUNDING));
        }
    }
    assert_true(infeasible * 100 > cases && infeasible * 3 < cases);
}

/* Nothing hides the replicas of a step of one micro-batch. */
static void the_last_stage_sends_no_replicas(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 15);
    for (int i = 0; i < cases; i++) {
        struct partition_plan plan;
        struct err err = {0};
        do {
            sample_draw(&sample, &draws, 8, 4, 1, 2);
        } while (!is_possible(&sample.problem));
        for (size_t u = 0; u < sample.problem.unit_count; u++) {
            sample.replica_bytes[u] *= 100;
        }
        sample.problem.replica_bytes = sample.replica_bytes;
        sample.problem.order = PARTITION_GREEDY;
        const struct sample_answer expected = sample_brute_force(&sample);
        if (partition_solve(&sample.problem, scratch, &plan, &err) == 0) {
            assert_close(&plan.lower_seconds, &expected.step_seconds, 1, 1e-9);
        }
    }
}

static double solve(struct err *err)
{
    struct partition_plan plan;
    return partition_solve(&sample.problem, scratch, &plan, err) == 0 ? plan.step_seconds
                                                                      : INFINITY;
}

/* The tie rule's share is all that the answer may lose. */
static void one_more_device_or_more_memory_never_costs_speed(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 12);
    for (int i = 0; i < cases; i++) {
        struct err err = {0};
        draw_case(&draws);
        const double whole = solve(&err);
        const size_t last = sample.problem.device_count - 1, pairs = sample.problem.pair_count;
        if (last >= 1 && sample.problem.stages_min <= last) {
            size_t kept = 0;
            struct partition_pair pair[SAMPLE_PAIRS];
            for (size_t p = 0; p < pairs; p++) {
                pair[kept] = sample.pair[p];
                kept += sample.pair[p].b != last;
            }
            sample.problem.device_count = last;
            sample.problem.pair = pair;
            sample.problem.pair_count = kept;
            assert_true(whole <= solve(&err) * (1 + PARTITION_TIE + TIE_ROUNDING));
            sample.problem.device_count = last + 1;
            sample.problem.pair = sample.pair;
            sample.problem.pair_count = pairs;
        }
        for (size_t d = 0; d <= last; d++) {
            sample.cap[d] += sample.cap[d] < UINT64_MAX / 2 ? draw_below(&draws, 300) : 0;
        }
        assert_true(solve(&err) <= whole * (1 + PARTITION_TIE + TIE_ROUNDING));
    }
}

/* A unit on a device, or a link, takes less time. */
static void improve_one(struct draws *draws)
{
    struct partition_problem *problem = &sample.problem;
    const double share = draw_uniform(draws, 0.2, 1);
    const size_t unit = draw_below(draws, problem->device_count * problem->unit_count);
    const size_t pair = problem->pair_count > 0 ? draw_below(draws, problem->pair_count) : 0;
    struct link_speed *link =
        problem->pair_count > 0 ? &sample.pair[pair].link : &problem->usual_link;
    switch (draw_below(draws, 5)) {
    case 0: sample.forward[unit] *= share; break;
    case 1: sample.backward[unit] *= share; break;
    case 2: sample.update[unit] *= share; break;
    case 3: link->latency_seconds *= share; break;
    default: link->bytes_per_second /= share; break;
    }
}

static void in_the_strict_order_faster_units_and_links_never_cost_speed(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 13);
    for (int i = 0; i < cases; i++) {
        struct err err = {0};
        draw_case(&draws);
        sample.problem.order = PARTITION_STRICT;
        const double before = solve(&err);
        for (int k = 0; k < 4; k++) {
            improve_one(&draws);
        }
        assert_true(solve(&err) <= before * (1 + PARTITION_TIE + TIE_ROUNDING));
    }
}

/* Only the fastest plans of the greedy order are tried, so the fastest strict one may be missed. */
static void the_strict_order_is_taken_where_it_is_faster(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 14);
    int faster = 0, found = 0;
    for (int i = 0; i < cases; i++) {
        struct partition_plan plan[3];
        struct err err = {0};
        draw_case(&draws);
        int rc[3];
        for (int order = 0; order < 3; order++) {
            sample.problem.order = (enum partition_order)order;
            rc[order] = partition_solve(&sample.problem, scratch, &plan[order], &err);
        }
        assert_true(rc[0] == rc[1] && rc[0] == rc[2]);
        if (rc[0] != 0) {
            continue;
        }
        const struct partition_plan *greedy = &plan[PARTITION_GREEDY];
        const struct partition_plan *strict = &plan[PARTITION_STRICT];
        const struct partition_plan *either = &plan[PARTITION_EITHER];
        assert_true(!greedy->strict && strict->strict);
        assert_true(either->strict
                        ? either->step_seconds < greedy->step_seconds * (1 - PARTITION_TIE)
                        : either->step_seconds == greedy->step_seconds);
        const bool wins = strict->step_seconds < greedy->step_seconds * (1 - PARTITION_TIE);
        faster += wins;
        found += wins && either->step_seconds <= strict->step_seconds * (1 + PARTITION_TIE);
        struct partition_plan again = *either;
        partition_play(&sample.problem, scratch, &again);
        assert_close(&again.step_seconds, &either->step_seconds, 1, 1e-12);
    }
    assert_true(faster * 20 > cases && found * 2 > faster);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_plan_equals_brute_force),
        cmocka_unit_test(the_last_stage_sends_no_replicas),
        cmocka_unit_test(one_more_device_or_more_memory_never_costs_speed),
        cmocka_unit_test(in_the_strict_order_faster_units_and_links_never_cost_speed),
        cmocka_unit_test(the_strict_order_is_taken_where_it_is_faster),
    };
    struct err err = {0};
    if (argc == 3) {
        cases = (int)strtol(argv[1], NULL, 10);
        plays_max = strtod(argv[2], NULL);
    }
    if (partition_scratch_new(&scratch, &err) != 0) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    partition_scratch_free(&scratch);
    return failed;
}
