/* Plans of a parameter server: test_servers [CASES [LARGEST]], random ones and those of 4 devices,
 * 8 units and 8 micro-batches. */
#include "coordinator/plan/servers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"
#include "tests/unit/coordinator_plan/servers_sample.h"

#define NEAR 1e-9

static size_t cases = 300, largest_cases = 8;
static struct servers_scratch *scratch;
static struct servers_sample sample;

static int compare(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static void compare_with_all(uint64_t purpose, size_t count, bool largest)
{
    struct draws draws = draws_of(1, purpose);
    double *gap = calloc(count, sizeof(double)), sum[2] = {0};
    size_t of[2] = {0}, solved = 0, plans = 0, missed = 0, exact = 0;
    assert_non_null(gap);
    for (size_t i = 0; i < count; i++) {
        struct servers_plan plan;
        struct err err = {0};
        servers_sample_draw(&sample, &draws, largest);
        const double best = servers_sample_brute_force(&sample, &plans);
        const int rc = servers_solve(&sample.problem, scratch, &plan, &err);
        if (rc) {
            assert_int_equal(rc, ERR_MEMORY);
            missed += isfinite(best);
            continue;
        }
        servers_sample_check(&sample, &plan);
        assert_true(plan.step_seconds >= best * (1 - NEAR));
        gap[solved] = plan.step_seconds / best - 1;
        exact += gap[solved] <= NEAR;
        const bool tight = sample.cap[0] < UINT64_MAX;
        sum[tight] += gap[solved++];
        of[tight]++;
    }
    qsort(gap, solved, sizeof(double), compare);
    const double loose = sum[0] / (double)of[0];
    (void)printf("%zu problems of %zu plans: %zu solved, %zu exactly; %zu plans not found\n", count,
                 plans, solved, exact, missed);
    (void)printf("gap: %.1f %% in the mean of %zu, %.1f %% of %zu that are short of memory; median "
                 "%.1f %%, %.1f %% for nine of ten, %.1f %% worst\n",
                 100 * loose, of[0], of[1] > 0 ? 100 * sum[1] / (double)of[1] : 0, of[1],
                 100 * gap[solved / 2], 100 * gap[solved * 9 / 10], 100 * gap[solved - 1]);
    assert_true(loose <= 0.015);
    assert_true(gap[solved / 2] <= 0.01 && missed * 50 <= count);
    free(gap);
}

static void plans_are_close_to_the_best_of_all(void **state)
{
    (void)state;
    compare_with_all(81, cases, false);
}

static void plans_of_four_devices_are_close_to_the_best_of_all(void **state)
{
    (void)state;
    compare_with_all(82, largest_cases, true);
}

/* The search for any number of servers takes another way. */
static void a_given_number_of_servers_is_no_slower_than_the_same_number_by_choice(void **state)
{
    struct draws draws = draws_of(1, 83);
    size_t several = 0;
    (void)state;
    for (size_t i = 0; i < cases; i++) {
        struct servers_plan free_plan, plan;
        struct err err = {0};
        servers_sample_draw(&sample, &draws, true);
        sample.problem.server_count = 0;
        sample.problem.server_device = sample.problem.server_end = NULL;
        if (servers_solve(&sample.problem, scratch, &free_plan, &err) != 0) {
            continue;
        }
        sample.problem.server_count = free_plan.server_count;
        assert_ok(servers_solve(&sample.problem, scratch, &plan, &err), &err);
        assert_int_equal(plan.server_count, free_plan.server_count);
        assert_true(plan.step_seconds <= free_plan.step_seconds * (1 + NEAR));
        several += free_plan.server_count > 1;
    }
    assert_true(several > cases / 10);
}

/* ---- choices ---- */

static void solve(struct servers_plan *plan)
{
    struct err err = {0};
    assert_ok(servers_solve(&sample.problem, scratch, plan, &err), &err);
    servers_sample_check(&sample, plan);
}

static void equal_devices_with_fast_links_have_one_server_and_equal_shares(void **state)
{
    (void)state;
    struct servers_plan plan;
    servers_sample_init(&sample, 4, 4, 8);
    for (size_t d = 0; d < 4; d++) {
        sample.rate[d] = 1e9;
    }
    solve(&plan);
    assert_int_equal(plan.server_count, 1);
    assert_int_equal(plan.stage_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(plan.stage[i].share.end - plan.stage[i].share.first, 2);
    }
}

static void several_servers_help_where_their_links_are_the_bottleneck(void **state)
{
    (void)state;
    struct servers_plan plan, one;
    servers_sample_init(&sample, 8, 4, 8);
    for (size_t d = 0; d < 4; d++) {
        sample.rate[d] = 40;
    }
    solve(&plan);
    sample.problem.server_count = 1;
    solve(&one);
    assert_true(plan.server_count > 1);
    assert_true(plan.step_seconds < one.step_seconds);
}

static void a_worker_that_would_only_lengthen_the_step_gets_no_share(void **state)
{
    (void)state;
    struct servers_plan plan;
    servers_sample_init(&sample, 2, 3, 4);
    for (size_t l = 0; l < 2; l++) {
        sample.forward[2 * 2 + l] = 100;
    }
    sample.problem.server_count = 1;
    solve(&plan);
    assert_int_equal(plan.idle_count, 1);
    assert_int_equal(plan.idle[0].device, 2);
    assert_int_equal(plan.idle[0].reason, SERVERS_SLOWER);
    assert_true(plan.idle[0].step_seconds_with > 200);
    sample.problem.stages_max = 2;
    solve(&plan);
    assert_int_equal(plan.idle[0].reason, SERVERS_STAGES_FULL);
    sample.problem.stages_max = 3;
    sample.cap[2] = 10;
    solve(&plan);
    assert_int_equal(plan.idle[0].reason, SERVERS_NO_MEMORY);
    assert_false(isfinite(plan.idle[0].step_seconds_with));
}

static void automatic_transfers_are_the_faster_of_two(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 84);
    size_t streams = 0;
    for (size_t i = 0; i < cases; i++) {
        struct servers_plan plan, optimal, stream;
        struct err err = {0};
        servers_sample_draw(&sample, &draws, false);
        sample.problem.server_count = 1;
        if (servers_solve(&sample.problem, scratch, &optimal, &err) != 0) {
            continue;
        }
        sample.problem.transfers = SEGMENTS_STREAM;
        solve(&stream);
        sample.problem.automatic = true;
        solve(&plan);
        assert_true(plan.step_seconds <= optimal.step_seconds * (1 + NEAR) ||
                    plan.step_seconds <= stream.step_seconds * (1 + NEAR));
        streams += plan.transfers == SEGMENTS_STREAM;
    }
    assert_true(streams > 0 && streams < cases);
}

static void every_way_of_transfers_has_a_plan_that_the_optimum_is_not_slower_than(void **state)
{
    (void)state;
    static const enum segments_transfers ways[] = {SEGMENTS_LAYER, SEGMENTS_GREEDY, SEGMENTS_READY,
                                                   SEGMENTS_WHOLE, SEGMENTS_FIXED};
    struct draws draws = draws_of(1, 85);
    for (size_t i = 0; i < cases / 4; i++) {
        struct servers_plan optimal, plan;
        struct err err = {0};
        servers_sample_draw(&sample, &draws, false);
        sample.problem.segment_bytes = 200;
        if (servers_solve(&sample.problem, scratch, &optimal, &err) != 0) {
            continue;
        }
        size_t plans = 0;
        const double least = servers_sample_brute_force(&sample, &plans);
        for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
            sample.problem.transfers = ways[w];
            solve(&plan);
            assert_int_equal(plan.transfers, ways[w]);
            assert_true(plan.step_seconds >= least * (1 - NEAR));
        }
    }
}

static void a_step_of_many_micro_batches_is_planned(void **state)
{
    (void)state;
    struct servers_plan plan;
    servers_sample_init(&sample, 4, 4, 1000);
    for (size_t d = 0; d < 4; d++) {
        sample.rate[d] = 1e9;
        sample.forward[d * 4] = 1 + (double)d;
    }
    solve(&plan);
    /* All together compute one micro-batch in 1 / (1/12 + 1/13 + 1/14 + 1/15) seconds. */
    assert_true(plan.step_seconds < 1.01 * 1000 / (1.0 / 12 + 1.0 / 13 + 1.0 / 14 + 1.0 / 15));
}

/* ---- given parts ---- */

static void given_servers_and_shares_are_kept(void **state)
{
    (void)state;
    const size_t device[] = {2, 0}, end[] = {3, 4}, share[] = {5, 3};
    struct servers_plan plan;
    servers_sample_init(&sample, 4, 3, 8);
    sample.forward[1 * 4] = 0.5; /* the fastest */
    sample.problem.server_count = 2;
    sample.problem.server_device = device;
    sample.problem.server_end = end;
    sample.problem.shares = SERVERS_GIVEN;
    sample.problem.share = share;
    sample.problem.share_count = 2;
    solve(&plan);
    assert_int_equal(plan.server_count, 2);
    assert_int_equal(plan.stage[0].device, 2);
    assert_int_equal(plan.stage[0].end, 3);
    assert_int_equal(plan.stage[1].device, 0);
    assert_int_equal(plan.stage[2].device, 1);
    assert_int_equal(plan.stage[2].share.end, 5);
    assert_int_equal(plan.stage[1].share.first, 5);
}

static void equal_shares_differ_by_one_micro_batch(void **state)
{
    (void)state;
    struct servers_plan plan;
    servers_sample_init(&sample, 4, 3, 8);
    for (size_t d = 0; d < 3; d++) {
        sample.rate[d] = 1e9;
        sample.forward[d * 4] = 1 + (double)d;
    }
    sample.problem.shares = SERVERS_EQUAL;
    solve(&plan);
    size_t least = 8, most = 0;
    for (size_t i = 0; i < plan.stage_count; i++) {
        const size_t share = plan.stage[i].share.end - plan.stage[i].share.first;
        least = share < least ? share : least;
        most = share > most ? share : most;
    }
    assert_int_equal(plan.stage_count, 3);
    assert_int_equal(least, 2);
    assert_int_equal(most, 3);
}

static void expect_error(int code, const char *part)
{
    struct servers_plan plan;
    struct err err = {0};
    assert_int_equal(servers_solve(&sample.problem, scratch, &plan, &err), code);
    assert_holds(err.text, part);
}

static void impossible_problems_are_rejected(void **state)
{
    (void)state;
    static const size_t twice[] = {1, 1}, two[] = {0, 1}, falling[] = {3, 3}, short_end[] = {1, 3};
    static const size_t rising[] = {1, 4}, few[] = {5, 2}, none[] = {8, 0};
    servers_sample_init(&sample, 4, 3, 8);
    sample.problem.server_count = 2;
    sample.problem.server_device = two;
    sample.problem.server_end = falling;
    expect_error(ERR_INVALID, "server 1 ends at unit 3");
    sample.problem.server_end = short_end;
    expect_error(ERR_INVALID, "must rise to 4");
    sample.problem.server_end = rising;
    sample.problem.server_device = twice;
    expect_error(ERR_INVALID, "the same device");
    servers_sample_init(&sample, 4, 3, 8);
    sample.problem.shares = SERVERS_GIVEN;
    sample.problem.share = few;
    sample.problem.share_count = 2;
    expect_error(ERR_INVALID, "the shares have 7 micro-batches, the step 8");
    sample.problem.share = none;
    expect_error(ERR_INVALID, "share 1: expected 1 to 8");
    servers_sample_init(&sample, 4, 3, 0);
    expect_error(ERR_INVALID, "0 micro-batches");
    servers_sample_init(&sample, 4, 3, 8);
    sample.problem.server_count = 4;
    expect_error(ERR_INVALID, "4 servers");
    servers_sample_init(&sample, 4, 2, 8);
    sample.cap[0] = sample.cap[1] = 300;
    expect_error(ERR_MEMORY, "do not fit");
    sample.cap[0] = sample.cap[1] = 1250;
    sample.may_work[0] = false;
    sample.cap[1] = 300;
    expect_error(ERR_MEMORY, "memory for a share");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_close_to_the_best_of_all),
        cmocka_unit_test(a_given_number_of_servers_is_no_slower_than_the_same_number_by_choice),
        cmocka_unit_test(plans_of_four_devices_are_close_to_the_best_of_all),
        cmocka_unit_test(equal_devices_with_fast_links_have_one_server_and_equal_shares),
        cmocka_unit_test(several_servers_help_where_their_links_are_the_bottleneck),
        cmocka_unit_test(a_worker_that_would_only_lengthen_the_step_gets_no_share),
        cmocka_unit_test(automatic_transfers_are_the_faster_of_two),
        cmocka_unit_test(every_way_of_transfers_has_a_plan_that_the_optimum_is_not_slower_than),
        cmocka_unit_test(a_step_of_many_micro_batches_is_planned),
        cmocka_unit_test(given_servers_and_shares_are_kept),
        cmocka_unit_test(equal_shares_differ_by_one_micro_batch),
        cmocka_unit_test(impossible_problems_are_rejected),
    };
    struct err err = {0};
    cases = argc > 1 ? strtoul(argv[1], NULL, 10) : cases;
    largest_cases = argc > 2 ? strtoul(argv[2], NULL, 10) : largest_cases;
    if (servers_scratch_new(SERVERS_SAMPLE_LAYERS, &scratch, &err) != 0) {
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    servers_scratch_free(&scratch);
    return failed;
}
