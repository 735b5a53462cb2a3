/* How much the step time changes by itself. */
#include "coordinator/core/generation/scatter.h"

#include <math.h>
#include <stdlib.h>

#include "coordinator/core/generation/drift.h"
#include "coordinator/core/state/state.h"
#include "tests/support/test.h"

/* `count` values, SCATTER_MS apart, of which every other one is `other`. */
static void take(struct scatter *scatter, int64_t *now_ms, int count, double seconds, double other)
{
    for (int i = 0; i < count; i++) {
        *now_ms += SCATTER_MS;
        scatter_take(scatter, i % 2 ? other : seconds, *now_ms);
    }
}

static void steady_steps_have_no_scatter_and_one_jump_is_none(void **state)
{
    (void)state;
    struct scatter scatter = {0};
    int64_t now_ms = 0;
    take(&scatter, &now_ms, 10, 0.3, 0.3);
    assert_true(fabs(scatter_share(&scatter)) < 1e-12);
    take(&scatter, &now_ms, 3, 1.5, 1.5);
    assert_true(fabs(scatter_share(&scatter)) < 1e-12);
}

static void alternating_steps_scatter_by_their_difference(void **state)
{
    (void)state;
    struct scatter scatter = {0};
    int64_t now_ms = 0;
    take(&scatter, &now_ms, 12, 0.3, 0.36);
    assert_true(fabs(scatter_share(&scatter) - 0.2) < 1e-9);
}

static void too_few_values_show_nothing(void **state)
{
    (void)state;
    struct scatter scatter = {0};
    int64_t now_ms = 0;
    take(&scatter, &now_ms, SCATTER_LEAST, 0.3, 0.6);
    assert_true(scatter_share(&scatter) == 0);
    take(&scatter, &now_ms, 1, 0.6, 0.6);
    assert_true(scatter_share(&scatter) > 0.9);
}

static void values_too_close_together_and_unknown_ones_are_left_out(void **state)
{
    (void)state;
    struct scatter scatter = {0};
    for (int64_t now_ms = 0; now_ms < 10 * SCATTER_MS; now_ms += SCATTER_MS / 10) {
        scatter_take(&scatter, now_ms % SCATTER_MS == 0 ? 0.3 : 9, now_ms);
    }
    scatter_take(&scatter, 0, 100 * SCATTER_MS);
    assert_int_equal(scatter.count, 9);
    assert_true(fabs(scatter_share(&scatter)) < 1e-12);
}

static void the_step_of_another_plan_is_no_change(void **state)
{
    (void)state;
    struct scatter scatter = {0};
    int64_t now_ms = 0;
    for (int plan = 1; plan <= 8; plan++) {
        scatter_begin(&scatter, now_ms);
        take(&scatter, &now_ms, 3, plan, plan);
    }
    assert_int_equal(scatter.count, 16);
    assert_true(fabs(scatter_share(&scatter)) < 1e-12);
}

static void a_gain_within_the_scatter_is_doubted_up_to_half_the_step(void **state)
{
    (void)state;
    struct job_slot *job = calloc(1, sizeof(*job));
    int64_t now_ms = 0;
    assert_non_null(job);
    assert_true(drift_doubt(job) == 0);
    job->job.doubt = 0.1;
    assert_true(drift_doubt(job) == 0.1);
    take(&job->drift.scatter, &now_ms, 12, 0.3, 0.33);
    assert_true(fabs(drift_doubt(job) - 0.3) < 1e-9);
    take(&job->drift.scatter, &now_ms, SCATTER_KEPT, 0.3, 0.9);
    assert_true(drift_doubt(job) == DRIFT_DOUBT_MAX);
    free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_steps_have_no_scatter_and_one_jump_is_none),
        cmocka_unit_test(alternating_steps_scatter_by_their_difference),
        cmocka_unit_test(too_few_values_show_nothing),
        cmocka_unit_test(values_too_close_together_and_unknown_ones_are_left_out),
        cmocka_unit_test(the_step_of_another_plan_is_no_change),
        cmocka_unit_test(a_gain_within_the_scatter_is_doubted_up_to_half_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
