#include <math.h>

#include "tests/support/test.h"
#include "tests/unit/coordinator_plan/sample.h"

static struct partition_scratch *scratch;
static struct sample sample;
static struct partition_plan plan;
static struct partition_left_out out[PARTITION_LEFT_OUT_MAX];

static size_t solve(void)
{
    struct err err = {0};
    assert_ok(partition_solve(&sample.problem, scratch, &plan, &err), &err);
    return partition_left_out(&sample.problem, scratch, &plan, out);
}

static void a_device_that_slows_the_others_down_is_left_out(void **state)
{
    (void)state;
    sample_init(&sample, 6, 3, 4);
    sample_slow_down(&sample, 1, 30);
    assert_int_equal(solve(), 1);
    assert_int_equal(plan.stage_count, 2);
    assert_int_equal(out[0].device, 1);
    assert_int_equal(out[0].reason, PARTITION_SLOWER);
    assert_true(out[0].step_seconds_with > plan.step_seconds * 1.5);
}

static void a_device_without_memory_for_any_unit_is_named(void **state)
{
    (void)state;
    sample_init(&sample, 6, 2, 4);
    for (size_t u = 0; u < 6; u++) {
        sample.unit_bytes[u] = 10;
    }
    sample.cap[0] = 5;
    assert_int_equal(solve(), 1);
    assert_int_equal(out[0].device, 0);
    assert_int_equal(out[0].reason, PARTITION_NO_MEMORY);
    assert_false(isfinite(out[0].step_seconds_with));
}

/* Twelve equal devices for two stages: one judgement, ten rows. */
static void equal_devices_are_judged_once(void **state)
{
    (void)state;
    sample_init(&sample, 6, 12, 4);
    sample.problem.stages_max = 2;
    assert_int_equal(solve(), 10);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(out[i].reason, PARTITION_STAGES_FULL);
        assert_close(&out[i].step_seconds_with, &plan.step_seconds, 1, 1e-9);
    }
}

static void a_gain_below_the_tie_rules_share_is_no_reason_to_take_a_device(void **state)
{
    (void)state;
    sample_init(&sample, 200, 2, 64);
    sample_slow_down(&sample, 1, 150);
    assert_int_equal(solve(), 1);
    assert_int_equal(plan.stage_count, 1);
    assert_int_equal(out[0].reason, PARTITION_NO_GAIN);
    assert_true(out[0].step_seconds_with > plan.step_seconds * (1 - PARTITION_TIE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_slows_the_others_down_is_left_out),
        cmocka_unit_test(a_device_without_memory_for_any_unit_is_named),
        cmocka_unit_test(equal_devices_are_judged_once),
        cmocka_unit_test(a_gain_below_the_tie_rules_share_is_no_reason_to_take_a_device),
    };
    struct err err = {0};
    if (partition_scratch_new(&scratch, &err) != 0) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    partition_scratch_free(&scratch);
    return failed;
}
