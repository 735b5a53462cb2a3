#include <math.h>
#include <stdlib.h>

#include "libtrain/ops/softmax_cross_entropy.h"
#include "tests/unit/libtrain_ops/kernel_support.h"
#include "tests/unit/libtrain_ops/naive.h"

#define RELATIVE 1e-15

static double off_by(double actual, double expected)
{
    return expected == 0.0 ? fabs(actual) : fabs(actual - expected) / fabs(expected);
}

static void check_loss(const struct kernel_pools *pools, struct draws *draws, size_t N, size_t C,
                       float spread, double smoothing)
{
    float *x = draw_floats(draws, N * C);
    int32_t *label = calloc(N, sizeof(*label));
    assert_non_null(label);
    for (size_t i = 0; i < N * C; i++) {
        x[i] *= spread;
    }
    for (size_t n = 0; n < N; n++) {
        label[n] = (int32_t)draw_size(draws, 0, C - 1);
    }
    double *wide = widen(x, N * C);
    double *oracle = zeros(N * C);
    double expected = naive_softmax_cross_entropy(N, C, wide, label, smoothing, 0.125, oracle);
    double first = 0.0;
    for (size_t i = 0; i < KERNEL_POOLS; i++) {
        struct compute compute = compute_init(pools->pool[i], softmax_cross_entropy_workspace(N));
        float *dx = draw_floats(draws, N * C);
        double loss = softmax_cross_entropy(&compute, N, C, x, label, smoothing, 0.125, dx);
        assert_true(off_by(loss, expected) < 1e-13);
        assert_close_to_oracle(dx, NULL, oracle, N * C, 1e-7);
        assert_true(i == 0 || loss == first);
        assert_true(loss == softmax_cross_entropy(&compute, N, C, x, label, smoothing, 0.0, NULL));
        first = loss;
        free(dx);
        compute_done(&compute);
    }
    free(x);
    free(label);
    free(wide);
    free(oracle);
}

static void the_loss_of_any_shape_matches_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(73);
    static const double smoothing[] = {0.0, 0.1, 0.999};
    for (int i = 0; i < 30; i++) {
        size_t N = draw_size(&draws, 1, 40);
        check_loss(*state, &draws, N, draw_size(&draws, 2, 30), i % 2 ? 1.0f : 80.0f,
                   smoothing[i % 3]);
    }
    check_loss(*state, &draws, 64, 1000, 5.0f, 0.0);
    check_loss(*state, &draws, 64, 1000, 5.0f, 0.2);
}

/* One class leaves nothing to learn; with K equal scores any smoothing costs log K and pushes from
 * the label's score to the others. */
static void smoothing_moves_the_target_towards_all_classes(void **state)
{
    const struct kernel_pools *pools = *state;
    struct compute compute = compute_init(pools->pool[0], softmax_cross_entropy_workspace(1));
    static const float x[4] = {0.5f, 0.5f, 0.5f, 0.5f};
    float dx[4];
    int32_t label = 2;
    assert_true(off_by(softmax_cross_entropy(&compute, 1, 4, x, &label, 0.4, 1.0, dx), log(4.0)) <
                RELATIVE);
    for (int c = 0; c < 4; c++) {
        assert_true(fabs((double)dx[c] - (c == 2 ? -0.45 : 0.15)) < 1e-7);
    }
    label = 0;
    assert_true(softmax_cross_entropy(&compute, 1, 1, x, &label, 0.4, 1.0, dx) == 0.0);
    assert_true(dx[0] == 0.0f);
    compute_done(&compute);
}

static void scores_that_are_not_finite_give_a_loss_that_is_not_finite(void **state)
{
    const struct kernel_pools *pools = *state;
    static const float bad[] = {INFINITY, NAN, -INFINITY};
    struct compute compute = compute_init(pools->pool[0], softmax_cross_entropy_workspace(1));
    for (size_t at = 0; at < 3; at++) {
        for (size_t i = 0; i < 3; i++) {
            float x[3] = {0.5f, -1.0f, 2.0f};
            float dx[3];
            int32_t label = 1;
            x[at] = bad[i];
            assert_false(isfinite(
                softmax_cross_entropy(&compute, 1, 3, x, &label, 0.1 * (double)i, 1.0, dx)));
        }
    }
    compute_done(&compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_of_any_shape_matches_the_oracle_at_any_thread_count),
        cmocka_unit_test(smoothing_moves_the_target_towards_all_classes),
        cmocka_unit_test(scores_that_are_not_finite_give_a_loss_that_is_not_finite),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
