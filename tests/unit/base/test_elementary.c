#include "base/elementary.h"

#include <float.h>
#include <math.h>

#include "base/rng.h"
#include "tests/support/test.h"

#define RELATIVE 1e-15

static double off_by(double actual, double expected)
{
    return expected == 0.0 ? fabs(actual) : fabs(actual - expected) / fabs(expected);
}

static void the_exponential_is_that_of_libm_to_1e_15(void **state)
{
    (void)state;
    const struct rng_stream stream = rng_stream(71, RNG_SIMULATION, 0, 0);
    double worst = 0.0;
    for (int i = 0; i < 200000; i++) {
        double unit = 2.0 * (double)rng_uniform(&stream, (uint64_t)i) - 1.0;
        double x = unit * (i % 3 == 0 ? 700.0 : i % 3 == 1 ? 10.0 : 1e-3);
        worst = fmax(worst, off_by(elementary_exp(x), exp(x)));
    }
    assert_true(worst < RELATIVE);
    assert_true(off_by(elementary_exp(709.0), exp(709.0)) < RELATIVE);
    assert_true(off_by(elementary_exp(-708.0), exp(-708.0)) < RELATIVE);
}

static void the_logarithm_is_that_of_libm_to_1e_15(void **state)
{
    (void)state;
    const struct rng_stream stream = rng_stream(72, RNG_SIMULATION, 0, 0);
    double worst = 0.0;
    for (int i = 0; i < 200000; i++) {
        double unit = 2.0 * (double)rng_uniform(&stream, (uint64_t)i) - 1.0;
        double x = i % 3 == 0   ? exp(unit * 700.0)
                   : i % 3 == 1 ? 1.0 + unit * 0.5
                                : 1.0 + unit * 1e-6;
        worst = fmax(worst, off_by(elementary_log(x), log(x)));
    }
    assert_true(worst < RELATIVE);
    for (int n = 1; n < 5000; n++) {
        assert_true(off_by(elementary_log(n), log(n)) < RELATIVE);
    }
    assert_true(off_by(elementary_log(DBL_MAX), log(DBL_MAX)) < RELATIVE);
    assert_true(off_by(elementary_log(DBL_MIN), log(DBL_MIN)) < RELATIVE);
}

static void exponential_and_logarithm_know_their_ends(void **state)
{
    (void)state;
    assert_true(elementary_exp(0.0) == 1.0);
    assert_true(elementary_exp(-INFINITY) == 0.0);
    assert_true(elementary_exp(-1000.0) == 0.0);
    assert_true(isinf(elementary_exp(INFINITY)) && isinf(elementary_exp(710.0)));
    assert_true(isnan(elementary_exp(NAN)));
    assert_true(elementary_log(1.0) == 0.0);
    assert_true(isinf(elementary_log(0.0)) && elementary_log(0.0) < 0.0);
    assert_true(isinf(elementary_log(INFINITY)));
    assert_true(isnan(elementary_log(-1.0)) && isnan(elementary_log(NAN)));
}

static void the_cosine_of_turns_is_that_of_libm(void **state)
{
    (void)state;
    static const double pi = 3.14159265358979323846;
    const struct rng_stream stream = rng_stream(73, RNG_SIMULATION, 0, 0);
    double worst = 0.0;
    for (int i = 0; i < 200000; i++) {
        double turns = 2.0 * (double)rng_uniform(&stream, (uint64_t)i) - 1.0;
        /* libm gets an angle that is rounded: its own error stays below that of an angle within
         * half a turn. */
        worst = fmax(worst, fabs(elementary_cos_turns(turns / 2) - cos(pi * turns)));
        assert_true(elementary_cos_turns(turns) == elementary_cos_turns(-turns));
        assert_true(elementary_cos_turns(turns + 3.0) == elementary_cos_turns(turns));
    }
    assert_true(worst < 1e-15);
}

static void the_cosine_is_exact_at_quarters(void **state)
{
    (void)state;
    for (int whole = -5; whole <= 5; whole++) {
        assert_true(elementary_cos_turns(whole) == 1.0);
        assert_true(elementary_cos_turns(whole + 0.25) == 0.0);
        assert_true(elementary_cos_turns(whole + 0.5) == -1.0);
        assert_true(elementary_cos_turns(whole + 0.75) == 0.0);
    }
    assert_true(isnan(elementary_cos_turns(NAN)) && isnan(elementary_cos_turns(INFINITY)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exponential_is_that_of_libm_to_1e_15),
        cmocka_unit_test(the_logarithm_is_that_of_libm_to_1e_15),
        cmocka_unit_test(exponential_and_logarithm_know_their_ends),
        cmocka_unit_test(the_cosine_of_turns_is_that_of_libm),
        cmocka_unit_test(the_cosine_is_exact_at_quarters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
