/* The mean of the newest step times. */
#include <math.h>
#include <stdbool.h>

#include "coordinator/core/generation/pace.h"
#include "tests/support/test.h"

static void add(struct pace *pace, double seconds, int steps)
{
    for (int i = 0; i < steps; i++) {
        pace_add(pace, seconds);
    }
}

static bool is_near(double a, double b, double part)
{
    return fabs(a - b) <= part * b;
}

static void no_steps_have_no_mean(void **state)
{
    (void)state;
    const struct pace pace = {0};
    assert_true(pace_mean(&pace) == 0);
}

static void one_step_is_its_own_mean(void **state)
{
    (void)state;
    struct pace pace = {0};
    pace_add(&pace, 70);
    assert_true(is_near(pace_mean(&pace), 70, 1e-12));
}

/* A tenth of a processor: nine steps of 2 ms, then one that waits for the next slice. */
static void slices_of_time_count_by_their_mean(void **state)
{
    (void)state;
    struct pace pace = {0};
    for (int slice = 0; slice < 40; slice++) {
        add(&pace, 0.002, 9);
        add(&pace, 0.082, 1);
        if (slice >= 3) {
            assert_true(is_near(pace_mean(&pace), 0.01, 0.25));
        }
    }
}

static void a_change_is_followed_within_two_spans(void **state)
{
    (void)state;
    struct pace pace = {0};
    add(&pace, 0.01, 1000);
    add(&pace, 0.05, 12); /* 0.6 s, and what is left of the span before */
    assert_true(is_near(pace_mean(&pace), 0.05, 0.35));
    add(&pace, 0.05, 2);
    assert_true(is_near(pace_mean(&pace), 0.05, 1e-9));
}

static void slow_steps_are_followed_within_four(void **state)
{
    (void)state;
    struct pace pace = {0};
    add(&pace, 1, 100);
    add(&pace, 5, 4);
    assert_true(is_near(pace_mean(&pace), 5, 1e-12));
}

/* A device that was frozen is as fast as before soon after. */
static void one_long_step_is_forgotten(void **state)
{
    (void)state;
    struct pace pace = {0};
    add(&pace, 0.01, 100);
    add(&pace, 20, 1);
    assert_true(pace_mean(&pace) > 0.1);
    add(&pace, 0.01, 62);
    assert_true(is_near(pace_mean(&pace), 0.01, 1e-9));
}

static void the_first_steps_do_not_count_in_the_mean_of_all(void **state)
{
    (void)state;
    struct pace pace = {0};
    add(&pace, 5, PACE_FIRST_STEPS);
    assert_true(pace_settled_mean(&pace) == 0);
    add(&pace, 0.01, 900);
    add(&pace, 0.11, 100);
    assert_int_equal(pace.settled.steps, 1000);
    assert_true(is_near(pace_settled_mean(&pace), 0.02, 1e-9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_steps_have_no_mean),
        cmocka_unit_test(one_step_is_its_own_mean),
        cmocka_unit_test(slices_of_time_count_by_their_mean),
        cmocka_unit_test(a_change_is_followed_within_two_spans),
        cmocka_unit_test(slow_steps_are_followed_within_four),
        cmocka_unit_test(one_long_step_is_forgotten),
        cmocka_unit_test(the_first_steps_do_not_count_in_the_mean_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
