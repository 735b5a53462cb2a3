#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "libtrain/optim/gradient.h"
#include "tests/unit/libtrain_ops/kernel_support.h"

#define COUNT 40003

static const size_t counts[] = {1, 2, 15, 16, 17, 16384, 33000, COUNT};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static void one_bad_gradient_anywhere_is_noticed(void **state)
{
    const struct kernel_pools *pools = *state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct draws draws = draws_new(102);
    struct compute compute = compute_init(pools->pool[1], (struct workspace_bytes){0});
    float *g = draw_floats(&draws, COUNT);
    for (int i = 0; i < 50; i++) {
        size_t at = draw_size(&draws, 0, COUNT - 1);
        float kept = g[at];
        g[at] = bad[i % 3];
        assert_false(gradient_all_finite(&compute, COUNT, g));
        g[at] = kept;
        assert_true(gradient_all_finite(&compute, COUNT, g));
    }
    free(g);
    compute_done(&compute);
}

static void clipping_by_value_limits_each_element(void **state)
{
    const struct kernel_pools *pools = *state;
    struct draws draws = draws_new(103);
    for (size_t i = 0; i < COUNTS; i++) {
        float *start = draw_floats(&draws, counts[i]);
        start[0] = -FLT_MAX;
        for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
            struct compute compute = compute_init(pools->pool[pool], (struct workspace_bytes){0});
            float *g = copy_floats(start, counts[i]);
            gradient_clip_value(&compute, counts[i], 0.25f, g);
            for (size_t k = 0; k < counts[i]; k++) {
                assert_true(g[k] == fmaxf(fminf(start[k], 0.25f), -0.25f));
            }
            free(g);
            compute_done(&compute);
        }
        free(start);
    }
}

static double naive_squares(size_t count, const float *g)
{
    double sum = 0.0;
    for (size_t k = 0; k < count; k++) {
        sum += (double)g[k] * (double)g[k];
    }
    return sum;
}

static void squares_are_summed_alike_by_any_number_of_threads(void **state)
{
    const struct kernel_pools *pools = *state;
    struct draws draws = draws_new(104);
    for (size_t i = 0; i < COUNTS; i++) {
        float *g = draw_floats(&draws, counts[i]);
        const double expected = naive_squares(counts[i], g);
        double first = 0.0;
        for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
            struct compute compute = compute_init(pools->pool[pool], (struct workspace_bytes){0});
            double sum = gradient_sum_squares(&compute, counts[i], g);
            first = pool == 0 ? sum : first;
            assert_true(fabs(sum - expected) <= 1e-12 * expected);
            assert_memory_equal(&sum, &first, sizeof(sum));
            compute_done(&compute);
        }
        free(g);
    }
}

static void gradients_are_scaled_one_by_one(void **state)
{
    const struct kernel_pools *pools = *state;
    struct draws draws = draws_new(105);
    for (size_t i = 0; i < COUNTS; i++) {
        float *start = draw_floats(&draws, counts[i]);
        for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
            struct compute compute = compute_init(pools->pool[pool], (struct workspace_bytes){0});
            float *g = copy_floats(start, counts[i]);
            gradient_scale(&compute, counts[i], 0.3f, g);
            for (size_t k = 0; k < counts[i]; k++) {
                assert_true(g[k] == start[k] * 0.3f);
            }
            free(g);
            compute_done(&compute);
        }
        free(start);
    }
}

/* The formula of torch.nn.utils.clip_grad_norm_. */
static void the_factor_shortens_only_longer_gradients(void **state)
{
    (void)state;
    assert_true(gradient_norm_factor(1.0, 0.0) == 1.0f);
    assert_true(gradient_norm_factor(5.0, 16.0) == 1.0f);
    assert_true(gradient_norm_factor(4.0, 16.0) == (float)(4.0 / 4.000001));
    assert_true(gradient_norm_factor(0.5, 16.0) == (float)(0.5 / 4.000001));
    assert_true(gradient_norm_factor(1e-6, 0.0) == 1.0f);
}

static void gradients_of_any_size_are_clipped(void **state)
{
    const struct kernel_pools *pools = *state;
    struct compute compute = compute_init(pools->pool[0], (struct workspace_bytes){0});
    float *g = calloc(COUNT, sizeof(float));
    assert_non_null(g);
    for (size_t k = 0; k < COUNT; k++) {
        g[k] = k % 2 ? FLT_MAX : -FLT_MAX; /* whose squares no float holds */
    }
    const double squares = gradient_sum_squares(&compute, COUNT, g);
    assert_true(isfinite(squares));
    gradient_scale(&compute, COUNT, gradient_norm_factor(1e6, squares), g);
    assert_true(fabs(sqrt(naive_squares(COUNT, g)) - 1e6) < 1.0);
    free(g);
    compute_done(&compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_bad_gradient_anywhere_is_noticed),
        cmocka_unit_test(clipping_by_value_limits_each_element),
        cmocka_unit_test(squares_are_summed_alike_by_any_number_of_threads),
        cmocka_unit_test(gradients_are_scaled_one_by_one),
        cmocka_unit_test(the_factor_shortens_only_longer_gradients),
        cmocka_unit_test(gradients_of_any_size_are_clipped),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
