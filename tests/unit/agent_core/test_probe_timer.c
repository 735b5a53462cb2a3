/* When an idle device measures itself (probe_timer.h). */
#include "tests/support/test.h"

#include "agent/core/probe_timer.h"

static struct heartbeat beat; /* too large for a stack */
static const struct device_probe measured = {
    .gemm_gflops = 5, .memory_bytes_per_second = 1e9, .processor_share = 0.5};

static void an_idle_device_measures_every_half_minute(void **state)
{
    (void)state;
    struct probe_timer timer = {0};
    assert_int_equal(probe_timer_step(&timer, true, 1000), PROBE_LEAVE);
    assert_int_equal(probe_timer_deadline_ms(&timer), 1000 + PROBE_EVERY_MS);
    assert_int_equal(probe_timer_step(&timer, true, 999 + PROBE_EVERY_MS), PROBE_LEAVE);
    assert_int_equal(probe_timer_step(&timer, true, 1000 + PROBE_EVERY_MS), PROBE_START);
    assert_int_equal(probe_timer_step(&timer, true, 1001 + PROBE_EVERY_MS), PROBE_LEAVE);
    probe_timer_took(&timer, 40000, &measured);
    assert_int_equal(probe_timer_step(&timer, true, 40001), PROBE_LEAVE);
    probe_timer_report(&timer, 42000, &beat);
    assert_true(beat.has_probe && beat.probe.gemm_gflops == 5);
    assert_true(beat.probe.processor_share == 0.5);
    assert_int_equal(beat.probe.age_ms, 2000);
    assert_int_equal(probe_timer_step(&timer, true, 40000 + PROBE_EVERY_MS), PROBE_START);
}

static void a_stage_ends_the_probe_and_what_it_showed(void **state)
{
    (void)state;
    struct probe_timer timer = {0};
    (void)probe_timer_step(&timer, true, 0);
    (void)probe_timer_step(&timer, true, PROBE_EVERY_MS);
    probe_timer_took(&timer, PROBE_EVERY_MS, &measured);
    assert_int_equal(probe_timer_step(&timer, true, 2 * PROBE_EVERY_MS), PROBE_START);
    assert_int_equal(probe_timer_step(&timer, false, 2 * PROBE_EVERY_MS + 1), PROBE_CANCEL);
    assert_int_equal(probe_timer_step(&timer, false, 9 * PROBE_EVERY_MS), PROBE_LEAVE);
    assert_true(probe_timer_deadline_ms(&timer) == INT64_MAX);
    probe_timer_report(&timer, 9 * PROBE_EVERY_MS, &beat);
    assert_false(beat.has_probe);
    /* Idle again: after half a minute, not at once. */
    assert_int_equal(probe_timer_step(&timer, true, 10 * PROBE_EVERY_MS), PROBE_LEAVE);
    assert_int_equal(probe_timer_step(&timer, true, 11 * PROBE_EVERY_MS), PROBE_START);
}

static void a_probe_that_hangs_is_ended(void **state)
{
    (void)state;
    struct probe_timer timer = {0};
    (void)probe_timer_step(&timer, true, 0);
    int64_t now_ms = PROBE_EVERY_MS;
    assert_int_equal(probe_timer_step(&timer, true, now_ms), PROBE_START);
    now_ms += PROBE_ANSWER_MS;
    assert_int_equal(probe_timer_step(&timer, true, now_ms), PROBE_CANCEL);
    probe_timer_report(&timer, now_ms, &beat);
    assert_false(beat.has_probe);
    assert_int_equal(probe_timer_step(&timer, true, now_ms + PROBE_EVERY_MS), PROBE_START);
    probe_timer_failed(&timer, now_ms + PROBE_EVERY_MS + 1);
    assert_int_equal(probe_timer_step(&timer, true, now_ms + PROBE_EVERY_MS + 2), PROBE_LEAVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_device_measures_every_half_minute),
        cmocka_unit_test(a_stage_ends_the_probe_and_what_it_showed),
        cmocka_unit_test(a_probe_that_hangs_is_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
