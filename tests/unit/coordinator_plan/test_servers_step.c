#include "coordinator/plan/servers_step.h"

#include <math.h>

#include "tests/support/test.h"
#include "tests/unit/coordinator_plan/servers_sample.h"

#define NEAR 1e-9
#define CASES 300

static struct servers_scratch *scratch;
static struct servers_sample sample;

static bool is_near(double a, double b)
{
    return fabs(a - b) <= NEAR * (fabs(a) + fabs(b)) + 1e-300;
}

static void solve(struct servers_plan *plan)
{
    struct err err = {0};
    assert_ok(servers_solve(&sample.problem, scratch, plan, &err), &err);
    servers_sample_check(&sample, plan);
}

/* A server and a worker, one layer of 2 s forward and 3 s backward, a request of 1 s. */
static void init_one_worker(size_t micro_batches, double bytes)
{
    servers_sample_init(&sample, 1, 2, micro_batches);
    sample.problem.usual_link.latency_seconds = 1;
    for (size_t d = 0; d < 2; d++) {
        sample.forward[d] = 2;
        sample.backward[d] = 3;
        sample.rate[d] = 10;
        sample.update[d] = 0.25;
        sample.add[d] = 0.5;
    }
    sample.layer_bytes[0] = bytes;
    sample.may_work[0] = sample.may_serve[1] = false;
}

static void a_step_pulls_computes_pushes_and_commits(void **state)
{
    (void)state;
    struct servers_plan plan;
    init_one_worker(2, 10);
    solve(&plan);
    assert_true(is_near(plan.work[1].pull_seconds, 0.5 + 1 + 2));
    assert_true(is_near(plan.work[1].middle_seconds, 5));
    assert_true(is_near(plan.work[1].push_seconds, 3 + 1 + 1));
    assert_true(is_near(plan.step_seconds, 13.5 + 0.25));
    assert_int_equal(plan.stage_count, 2);
    assert_int_equal(plan.work[1].pull_segments, 1);
}

/* Of its three micro-batches of four a worker sends two sums. The first push begins after 3 s and
 * takes 11 s; the last backward pass begins 5 s after that of the first block: for 9 s of it the
 * link is busy. */
static void earlier_blocks_delay_the_last_push(void **state)
{
    (void)state;
    const size_t share[] = {3, 1};
    struct servers_plan plan;
    init_one_worker(4, 100);
    sample.problem.device_count = sample.problem.stages_max = 3;
    sample.problem.shares = SERVERS_GIVEN;
    sample.problem.share = share;
    sample.problem.share_count = 2;
    sample.forward[2] = 2;
    sample.backward[2] = 3;
    sample.rate[0] = 20; /* both workers use it at a time */
    sample.rate[2] = 10;
    sample.may_work[2] = true;
    sample.cap[2] = UINT64_MAX;
    solve(&plan);
    assert_int_equal(plan.stage[1].share.end, 3);
    assert_true(is_near(plan.work[1].push_seconds, 9 + 11));
    assert_true(is_near(plan.commit_seconds, 2 * 0.5 + 0.25)); /* three sums */
    assert_true(is_near(plan.step_seconds, 0.5 + 11 + 2 + 10 - 1 + 20 + 1.25));
}

/* Two workers send two sums each to the server that keeps nearly everything, and share its link for
 * each of them and for the pull before. */
static void workers_share_the_link_of_a_server(void **state)
{
    (void)state;
    const size_t server[] = {0, 1}, end[] = {1, 2}, share[] = {5, 3};
    struct servers_plan plan;
    servers_sample_init(&sample, 2, 4, 8);
    for (size_t i = 0; i < 8; i++) {
        sample.forward[i] = sample.backward[i] = 0;
    }
    sample.layer_bytes[1] = 0;
    sample.may_work[0] = sample.may_work[1] = false;
    sample.problem.server_count = 2;
    sample.problem.server_device = server;
    sample.problem.server_end = end;
    sample.problem.shares = SERVERS_GIVEN;
    sample.problem.share = share;
    sample.problem.share_count = 2;
    solve(&plan);
    assert_true(is_near(plan.workers_seconds, 2 * 3 * 100.0 / 1000));
    assert_true(is_near(plan.link_seconds, 4 * 100.0 / 1000));
    assert_true(is_near(plan.step_seconds, plan.workers_seconds));
}

/* Three workers on other devices pull from one server at a time. */
static void workers_share_the_links_of_servers(void **state)
{
    (void)state;
    const size_t share[] = {1, 1, 2}, server[] = {0}, end[] = {1};
    struct servers_plan plan;
    servers_sample_init(&sample, 1, 4, 4);
    sample.may_work[0] = false;
    sample.rate[0] = 60;
    sample.problem.server_count = 1;
    sample.problem.server_device = server;
    sample.problem.server_end = end;
    sample.problem.shares = SERVERS_GIVEN;
    sample.problem.share = share;
    sample.problem.share_count = 3;
    solve(&plan);
    assert_true(is_near(plan.work[1].pull_seconds, 100.0 / (60.0 / 3) + 1));
    sample.problem.usual_link.bytes_per_second = 10; /* the links between them are slower */
    solve(&plan);
    assert_true(is_near(plan.work[1].pull_seconds, 100.0 / 10 + 1));
}

/* The lead tells the other servers of the commit, and the parts of the norm travel to the first
 * server and back. */
static void several_servers_exchange_commits_and_norms(void **state)
{
    (void)state;
    const size_t server[] = {0, 1}, end[] = {1, 2}, share[] = {1};
    struct servers_plan plan;
    servers_sample_init(&sample, 2, 3, 1);
    sample.may_work[0] = sample.may_work[1] = false;
    sample.problem.usual_link.latency_seconds = 1;
    sample.problem.server_count = 2;
    sample.problem.server_device = server;
    sample.problem.server_end = end;
    sample.problem.shares = SERVERS_GIVEN;
    sample.problem.share = share;
    sample.problem.share_count = 1;
    sample.update[1 * 2 + 1] = 0.25;
    solve(&plan);
    assert_true(is_near(plan.commit_seconds, 0.5 + 0.25));
    sample.problem.clips_norm = true;
    solve(&plan);
    assert_true(is_near(plan.commit_seconds, 0.5 + 1 + 0.25));
}

static void layers_of_its_own_cost_a_worker_nothing(void **state)
{
    (void)state;
    struct servers_plan plan;
    servers_sample_init(&sample, 4, 1, 4);
    solve(&plan);
    assert_true(is_near(plan.step_seconds, 4 * 12));
    assert_int_equal(plan.work[0].pull_segments + plan.work[0].push_segments, 0);
}

static void the_prediction_scales_with_all_times(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 83);
    for (size_t i = 0; i < CASES; i++) {
        struct servers_plan plan, slow;
        struct err err = {0};
        servers_sample_draw(&sample, &draws, false);
        if (servers_solve(&sample.problem, scratch, &plan, &err) != 0) {
            continue;
        }
        for (size_t k = 0; k < SERVERS_SAMPLE_DEVICES * SERVERS_SAMPLE_LAYERS; k++) {
            sample.forward[k] *= 4;
            sample.backward[k] *= 4;
        }
        for (size_t k = 0; k < SERVERS_SAMPLE_DEVICES * SERVERS_SAMPLE_UNITS; k++) {
            sample.update[k] *= 4;
            sample.add[k] *= 4;
        }
        for (size_t k = 0; k < SERVERS_SAMPLE_DEVICES; k++) {
            sample.rate[k] /= 4;
        }
        for (size_t k = 0; k < sample.problem.pair_count; k++) {
            sample.pair[k].link.latency_seconds *= 4;
            sample.pair[k].link.bytes_per_second /= 4;
        }
        sample.problem.usual_link.latency_seconds *= 4;
        sample.problem.usual_link.bytes_per_second /= 4;
        solve(&slow);
        assert_true(is_near(slow.step_seconds, 4 * plan.step_seconds));
        assert_int_equal(slow.stage_count, plan.stage_count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_pulls_computes_pushes_and_commits),
        cmocka_unit_test(earlier_blocks_delay_the_last_push),
        cmocka_unit_test(workers_share_the_link_of_a_server),
        cmocka_unit_test(workers_share_the_links_of_servers),
        cmocka_unit_test(several_servers_exchange_commits_and_norms),
        cmocka_unit_test(layers_of_its_own_cost_a_worker_nothing),
        cmocka_unit_test(the_prediction_scales_with_all_times),
    };
    struct err err = {0};
    if (servers_scratch_new(SERVERS_SAMPLE_LAYERS, &scratch, &err) != 0) {
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    servers_scratch_free(&scratch);
    return failed;
}
