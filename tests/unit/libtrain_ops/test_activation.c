#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/ops/activation.h"
#include "libtrain/ops/elementary_vector.h"
#include "tests/unit/libtrain_ops/kernel_support.h"
#include "tests/unit/libtrain_ops/naive.h"

static void exp_and_the_normal_share_are_those_of_libm(void **state)
{
    (void)state;
    for (double x = -707.9; x <= 0.0; x += 0.0137) {
        assert_true(fabs(elementary_exp_below_0(x) / exp(x) - 1.0) < 1e-11);
    }
    assert_true(elementary_exp_below_0(0.0) == 1.0);
    assert_true(elementary_exp_below_0(-708.5) == 0.0);
    assert_true(elementary_exp_below_0(-INFINITY) == 0.0);
    assert_true(isnan(elementary_exp_below_0(NAN)));
    for (double x = -37.0; x < 37.0; x += 0.00137) {
        double bell;
        double share = elementary_normal_share(x, &bell);
        assert_true(fabs(share / (0.5 * erfc(-x / sqrt(2.0))) - 1.0) < 1e-10);
        assert_true(fabs(bell / exp(-0.5 * x * x) - 1.0) < 1e-10);
        assert_true(fabs(elementary_sigmoid(x) * (1.0 + exp(-x)) - 1.0) < 1e-10);
    }
}

static void check(void **state, size_t pool, enum activation kind, size_t count)
{
    const struct kernel_pools *pools = *state;
    struct draws draws = draws_new(301 + count);
    struct compute compute = compute_init(pools->pool[pool], (struct workspace_bytes){0});
    float *x = draw_floats(&draws, count);
    float *dy = draw_floats(&draws, count);
    float *start = draw_floats(&draws, count);
    float *y = copy_floats(start, count);
    float *dx = copy_floats(start, count);
    for (size_t i = 0; i < count; i++) {
        x[i] *= 12.0f;
    }
    double *wide_x = widen(x, count);
    double *wide_dy = widen(dy, count);
    double *wide_y = zeros(count);
    double *wide_dx = zeros(count);
    naive_activation_forward(kind, count, wide_x, wide_y);
    naive_activation_backward(kind, count, wide_x, wide_dy, wide_dx);
    activation_forward(&compute, kind, count, x, y);
    activation_backward(&compute, kind, count, x, dy, dx, true);
    assert_close_to_oracle(y, NULL, wide_y, count, 1e-7);
    assert_close_to_oracle(dx, start, wide_dx, count, 3e-7);
    activation_backward(&compute, kind, count, x, dy, dx, false);
    assert_close_to_oracle(dx, NULL, wide_dx, count, 1e-7);
    activation_backward(&compute, kind, count, x, dy, dy, false);
    assert_memory_equal(dx, dy, count * sizeof(float));
    activation_forward(&compute, kind, count, x, x);
    assert_memory_equal(x, y, count * sizeof(float));
    void *all[] = {x, dy, start, y, dx, wide_x, wide_dy, wide_y, wide_dx};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
    compute_done(&compute);
}

static void activations_match_the_oracle_in_place_and_not_at_any_thread_count(void **state)
{
    static const size_t counts[] = {1, 7, 16, 1000, 100003};
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            check(state, pool, ACTIVATION_GELU, counts[i]);
            check(state, pool, ACTIVATION_SILU, counts[i]);
        }
    }
}

static void far_from_zero_they_are_zero_or_the_identity_and_pass_nan(void **state)
{
    const struct kernel_pools *pools = *state;
    struct compute compute = compute_init(pools->pool[0], (struct workspace_bytes){0});
    const float ends[] = {-3e38f, -1000.0f, 0.0f, 1000.0f, 3e38f, INFINITY, NAN};
    float x[7 * 16];
    float ones[7 * 16];
    float y[7 * 16];
    float dx[7 * 16];
    for (size_t i = 0; i < 7 * 16; i++) {
        x[i] = ends[i % 7];
        ones[i] = 1.0f;
    }
    for (int kind = ACTIVATION_GELU; kind <= ACTIVATION_SILU; kind++) {
        activation_forward(&compute, (enum activation)kind, 7 * 16, x, y);
        activation_backward(&compute, (enum activation)kind, 5, x, ones, dx, false);
        for (size_t i = 0; i < 7 * 16; i++) {
            assert_true(x[i] > 0.0f || x[i] <= 0.0f ? y[i] == fmaxf(x[i], 0.0f) : isnan(y[i]));
        }
        static const float slopes[] = {0.0f, 0.0f, 0.5f, 1.0f, 1.0f};
        for (size_t i = 0; i < 5; i++) {
            assert_true(dx[i] == slopes[i]);
        }
    }
    compute_done(&compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_and_the_normal_share_are_those_of_libm),
        cmocka_unit_test(activations_match_the_oracle_in_place_and_not_at_any_thread_count),
        cmocka_unit_test(far_from_zero_they_are_zero_or_the_identity_and_pass_nan),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
