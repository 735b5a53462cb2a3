/* Given plans of a parameter server, and plans with a least number of devices. */
#include "coordinator/plan/servers_play.h"

#include <math.h>

#include "tests/support/test.h"
#include "tests/unit/coordinator_plan/servers_sample.h"

#define NEAR 1e-9
#define CASES 300

static struct servers_scratch *scratch;
static struct servers_sample sample;

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) <= NEAR * (fabs(a) + fabs(b)) + 1e-300);
}

static int play(const struct servers_plan *plan, struct servers_plan *out, struct err *err)
{
    return servers_play(&sample.problem, scratch, plan->stage, plan->stage_count, out, err);
}

static void a_plan_played_again_is_the_same(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 91);
    size_t played = 0;
    for (size_t i = 0; i < CASES; i++) {
        struct servers_plan plan, again;
        struct err err = {0};
        servers_sample_draw(&sample, &draws, false);
        sample.problem.automatic = i % 2 == 0;
        if (servers_solve(&sample.problem, scratch, &plan, &err) != 0) {
            continue;
        }
        assert_ok(play(&plan, &again, &err), &err);
        servers_sample_check(&sample, &again);
        assert_int_equal(again.stage_count, plan.stage_count);
        assert_int_equal(again.server_count, plan.server_count);
        assert_true(again.step_seconds <= plan.step_seconds * (1 + NEAR));
        assert_near(again.link_seconds, plan.link_seconds);
        for (size_t s = 0; s < plan.stage_count; s++) {
            assert_int_equal(again.stage[s].device, plan.stage[s].device);
            assert_int_equal(again.stage[s].end, plan.stage[s].end);
            assert_int_equal(again.stage[s].share.end, plan.stage[s].share.end);
            assert_int_equal(again.memory_bytes[s], plan.memory_bytes[s]);
        }
        if (!sample.problem.automatic) {
            assert_near(again.step_seconds, plan.step_seconds);
        }
        played++;
    }
    assert_true(played > CASES / 2);
}

static void slower_devices_lengthen_a_given_plan(void **state)
{
    (void)state;
    struct servers_plan plan, again;
    struct err err = {0};
    servers_sample_init(&sample, 2, 2, 4);
    sample.rate[0] = sample.rate[1] = 1e9;
    assert_ok(servers_solve(&sample.problem, scratch, &plan, &err), &err);
    const double before = plan.step_seconds;
    const size_t slow = plan.stage[1].device;
    for (size_t l = 0; l < 2; l++) {
        sample.forward[slow * 2 + l] *= 10;
        sample.backward[slow * 2 + l] *= 10;
    }
    assert_ok(play(&plan, &again, &err), &err);
    assert_true(again.step_seconds > 9 * before && again.step_seconds < 11 * before);
    assert_ok(servers_solve(&sample.problem, scratch, &plan, &err), &err);
    assert_true(plan.step_seconds < again.step_seconds / 4); /* other shares are faster */
}

static void the_busiest_link_is_that_of_a_server(void **state)
{
    (void)state;
    struct servers_plan plan, again;
    struct err err = {0};
    servers_sample_init(&sample, 4, 4, 4);
    sample.layer_bytes[3] = 1e6;
    plan = (struct servers_plan){.stage_count = 4,
                                 .stage = {{.device = 0, .end = 2, .share = {0, 1}},
                                           {.device = 1, .first = 2, .end = 4, .share = {1, 2}},
                                           {.device = 2, .share = {2, 3}},
                                           {.device = 3, .share = {3, 4}}}};
    assert_ok(play(&plan, &again, &err), &err);
    assert_int_equal(again.busiest_link, 1);
    assert_near(again.link_seconds, 3 * (1e6 + 100) / 1000);
}

static void expect_error(const struct servers_plan *plan, int code, const char *part)
{
    struct servers_plan again;
    struct err err = {0};
    assert_int_equal(play(plan, &again, &err), code);
    assert_holds(err.text, part);
}

static void stages_of_no_plan_are_rejected(void **state)
{
    (void)state;
    servers_sample_init(&sample, 4, 3, 4);
    const struct servers_plan good = {
        .stage_count = 2,
        .stage = {{.device = 0, .end = 4, .share = {0, 1}}, {.device = 1, .share = {1, 4}}}};
    struct servers_plan again, bad = good;
    struct err err = {0};
    assert_ok(play(&good, &again, &err), &err);
    bad.stage[0].end = 3;
    expect_error(&bad, ERR_INVALID, "3 of 4 units");
    bad = good;
    bad.stage[0].first = 1;
    expect_error(&bad, ERR_INVALID, "units from 0 on");
    bad = good;
    bad.stage[1].share.first = 2;
    expect_error(&bad, ERR_INVALID, "1 of 4 micro-batches");
    bad = good;
    bad.stage[bad.stage_count++] = (struct servers_stage){.device = 2};
    expect_error(&bad, ERR_INVALID, "2 of 3 devices");
    bad = good;
    bad.stage[1].device = 7;
    expect_error(&bad, ERR_INVALID, "unknown device");
    bad.stage_count = 0;
    expect_error(&bad, ERR_INVALID, "0 stages");
    sample.cap[1] = 10;
    expect_error(&good, ERR_MEMORY, "does not fit");
}

/* ---- a least number of devices ---- */

static void a_plan_has_as_many_devices_as_it_must(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 92);
    size_t solved = 0, longer = 0;
    for (size_t i = 0; i < CASES; i++) {
        struct servers_plan plan, free_plan;
        struct err err = {0};
        servers_sample_draw(&sample, &draws, false);
        if (servers_solve(&sample.problem, scratch, &free_plan, &err) != 0) {
            continue;
        }
        const size_t units = sample.problem.unit_count, devices = sample.problem.device_count;
        const size_t servers = units < SERVERS_MAX ? units : SERVERS_MAX;
        const size_t most = servers + sample.problem.micro_batches;
        sample.problem.stages_min = devices < most ? devices : most;
        const int rc = servers_solve(&sample.problem, scratch, &plan, &err);
        if (rc != 0) {
            assert_int_equal(rc, ERR_MEMORY);
            assert_true(sample.cap[0] < UINT64_MAX);
            continue;
        }
        servers_sample_check(&sample, &plan);
        assert_true(plan.stage_count >= sample.problem.stages_min);
        assert_true(free_plan.stage_count < plan.stage_count ||
                    plan.step_seconds <= free_plan.step_seconds * 2);
        solved++;
        longer += plan.stage_count > free_plan.stage_count;
    }
    assert_true(solved > CASES / 2 && longer > CASES / 10);
}

static void more_devices_than_there_is_work_for_are_rejected(void **state)
{
    (void)state;
    struct servers_plan plan;
    struct err err = {0};
    servers_sample_init(&sample, 1, 4, 2);
    sample.problem.stages_min = 3;
    assert_ok(servers_solve(&sample.problem, scratch, &plan, &err), &err);
    assert_int_equal(plan.stage_count, 3); /* the server does not work */
    assert_int_equal(plan.stage[0].share.end, plan.stage[0].share.first);
    sample.problem.stages_min = 4;
    assert_int_equal(servers_solve(&sample.problem, scratch, &plan, &err), ERR_INVALID);
    assert_holds(err.text, "4 devices: 2 micro-batches");
    sample.problem.stages_max = 3;
    assert_int_equal(servers_solve(&sample.problem, scratch, &plan, &err), ERR_INVALID);
}

/* ---- bounds of the search ---- */

static void a_short_search_finds_a_plan_and_a_long_one_a_better_one(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 93);
    double gap = 0;
    for (size_t i = 0; i < CASES; i++) {
        struct servers_plan plan, best;
        struct err err = {0};
        servers_sample_draw(&sample, &draws, false);
        if (sample.cap[0] < UINT64_MAX ||
            servers_solve(&sample.problem, scratch, &best, &err) != 0) {
            continue;
        }
        const double work = servers_scratch_work(scratch);
        sample.problem.work_max = 20;
        assert_ok(servers_solve(&sample.problem, scratch, &plan, &err), &err);
        servers_sample_check(&sample, &plan);
        assert_true(servers_scratch_work(scratch) <= work);
        assert_true(plan.step_seconds >= best.step_seconds * (1 - 0.011)); /* the tie rule */
        gap += plan.step_seconds / best.step_seconds - 1;
    }
    assert_true(gap > 0);
}

static void a_cancelled_search_has_no_plan(void **state)
{
    (void)state;
    static const _Atomic bool cancelled = true;
    struct servers_plan plan;
    struct err err = {0};
    servers_sample_init(&sample, 4, 3, 4);
    sample.problem.cancelled = &cancelled;
    assert_int_equal(servers_solve(&sample.problem, scratch, &plan, &err), ERR_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_played_again_is_the_same),
        cmocka_unit_test(slower_devices_lengthen_a_given_plan),
        cmocka_unit_test(the_busiest_link_is_that_of_a_server),
        cmocka_unit_test(stages_of_no_plan_are_rejected),
        cmocka_unit_test(a_plan_has_as_many_devices_as_it_must),
        cmocka_unit_test(more_devices_than_there_is_work_for_are_rejected),
        cmocka_unit_test(a_short_search_finds_a_plan_and_a_long_one_a_better_one),
        cmocka_unit_test(a_cancelled_search_has_no_plan),
    };
    struct err err = {0};
    if (servers_scratch_new(SERVERS_SAMPLE_LAYERS, &scratch, &err) != 0) {
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    servers_scratch_free(&scratch);
    return failed;
}
