#include <math.h>
#include <stdlib.h>

#include "libtrain/ops/batch_norm.h"
#include "libtrain/ops/relu.h"
#include "tests/unit/libtrain_ops/kernel_support.h"
#include "tests/unit/libtrain_ops/naive.h"

#define TOLERANCE 3e-6

struct batch_norm_case {
    struct batch_norm_shape shape;
    bool accumulate, in_place;
    float *x, *weight, *bias, *dy, *start_dx, *start_dweight, *start_dbias, *running_mean,
        *running_variance;
};

struct batch_norm_result {
    float *y, *evaluated, *dx, *dweight, *dbias, *running_mean, *running_variance;
};

static struct batch_norm_result run(const struct batch_norm_case *c, struct train_pool *pool)
{
    const struct batch_norm_shape *s = &c->shape;
    size_t count = s->M * s->C;
    struct compute compute = compute_init(pool, batch_norm_workspace(s->M, s->C));
    struct batch_norm_result r = {
        .y = copy_floats(c->dy, count),
        .evaluated = copy_floats(c->x, count),
        .dx = copy_floats(c->in_place ? c->dy : c->start_dx, count),
        .dweight = copy_floats(c->start_dweight, s->C),
        .dbias = copy_floats(c->start_dbias, s->C),
        .running_mean = copy_floats(c->running_mean, s->C),
        .running_variance = copy_floats(c->running_variance, s->C),
    };
    float *saved = calloc(BATCH_NORM_SAVED * s->C, sizeof(float));
    assert_non_null(saved);
    batch_norm_evaluate(&compute, s, c->in_place ? r.evaluated : c->x, c->weight, c->bias,
                        r.running_mean, r.running_variance, r.evaluated);
    batch_norm_forward(&compute, s, c->x, c->weight, c->bias, r.running_mean, r.running_variance,
                       saved, r.y);
    batch_norm_backward(&compute, s, c->x, c->weight, saved, c->in_place ? r.dx : c->dy, r.dx,
                        c->accumulate, r.dweight, r.dbias);
    free(saved);
    compute_done(&compute);
    return r;
}

static void result_done(struct batch_norm_result *r)
{
    float *all[] = {
        r->y, r->evaluated, r->dx, r->dweight, r->dbias, r->running_mean, r->running_variance};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void check_running(const struct batch_norm_case *c, const struct batch_norm_result *r,
                          const double *mean, const double *variance)
{
    const struct batch_norm_shape *s = &c->shape;
    double unbiased = s->M > 1 ? (double)s->M / ((double)s->M - 1.0) : 1.0;
    for (size_t i = 0; i < s->C; i++) {
        double expected_mean = 0.9 * (double)c->running_mean[i] + 0.1 * mean[i];
        double expected_variance =
            0.9 * (double)c->running_variance[i] + 0.1 * variance[i] * unbiased;
        assert_true(fabs((double)r->running_mean[i] - expected_mean) < 1e-6);
        assert_true(fabs((double)r->running_variance[i] - expected_variance) < 1e-6);
    }
}

static void check_against_naive(const struct batch_norm_case *c, const struct batch_norm_result *r)
{
    const struct batch_norm_shape *s = &c->shape;
    size_t count = s->M * s->C;
    double *x = widen(c->x, count);
    double *weight = widen(c->weight, s->C);
    double *bias = widen(c->bias, s->C);
    double *dy = widen(c->dy, count);
    double *mean = zeros(s->C);
    double *variance = zeros(s->C);
    double *y = zeros(count);
    double *dx = zeros(count);
    double *dweight = zeros(s->C);
    double *dbias = zeros(s->C);
    naive_batch_norm_forward(s, x, weight, bias, mean, variance, y);
    naive_batch_norm_backward(s, x, weight, dy, dx, dweight, dbias);
    assert_close_to_oracle(r->y, NULL, y, count, TOLERANCE);
    if (s->M > 2) { /* of one or two rows the gradient is the rounding of a difference that is zero
                       or nearly so */
        assert_close_to_oracle(r->dx, c->accumulate ? c->start_dx : NULL, dx, count, TOLERANCE);
        assert_close_to_oracle(r->dweight, c->start_dweight, dweight, s->C, TOLERANCE);
    }
    assert_close_to_oracle(r->dbias, c->start_dbias, dbias, s->C, TOLERANCE);
    check_running(c, r, mean, variance);
    for (size_t i = 0; i < count; i++) {
        size_t channel = i % s->C;
        y[i] = (x[i] - (double)c->running_mean[channel]) /
                   sqrt((double)c->running_variance[channel] + s->epsilon) * weight[channel] +
               bias[channel];
    }
    assert_close_to_oracle(r->evaluated, NULL, y, count, TOLERANCE);
    double *all[] = {x, weight, bias, dy, mean, variance, y, dx, dweight, dbias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void check_shape(const struct kernel_pools *pools, struct draws *draws, size_t M, size_t C)
{
    size_t count = M * C;
    struct batch_norm_case c = {.shape = {.M = M, .C = C, .epsilon = 1e-5, .momentum = 0.1},
                                .accumulate = draw_size(draws, 0, 1),
                                .x = draw_floats(draws, count),
                                .weight = draw_floats(draws, C),
                                .bias = draw_floats(draws, C),
                                .dy = draw_floats(draws, count),
                                .start_dx = draw_floats(draws, count),
                                .start_dweight = draw_floats(draws, C),
                                .start_dbias = draw_floats(draws, C),
                                .running_mean = draw_floats(draws, C),
                                .running_variance = draw_floats(draws, C)};
    c.in_place = !c.accumulate && draw_size(draws, 0, 1);
    for (size_t i = 0; i < C; i++) {
        c.running_variance[i] = c.running_variance[i] * 0.5f + 1.0f;
    }
    struct batch_norm_result first = run(&c, pools->pool[0]);
    check_against_naive(&c, &first);
    for (size_t i = 1; i < KERNEL_POOLS; i++) {
        struct batch_norm_result other = run(&c, pools->pool[i]);
        assert_memory_equal(first.y, other.y, count * sizeof(float));
        assert_memory_equal(first.dx, other.dx, count * sizeof(float));
        assert_memory_equal(first.dweight, other.dweight, C * sizeof(float));
        assert_memory_equal(first.dbias, other.dbias, C * sizeof(float));
        assert_memory_equal(first.running_mean, other.running_mean, C * sizeof(float));
        assert_memory_equal(first.running_variance, other.running_variance, C * sizeof(float));
        result_done(&other);
    }
    result_done(&first);
    float *all[] = {c.x,           c.weight,       c.bias,
                    c.dy,          c.start_dx,     c.start_dweight,
                    c.start_dbias, c.running_mean, c.running_variance};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void layers_of_any_shape_match_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(21);
    for (int i = 0; i < 40; i++) {
        size_t M = draw_size(&draws, 1, 130);
        check_shape(*state, &draws, M, draw_size(&draws, 1, 40));
    }
}

static void layers_of_several_slabs_match_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(22);
    check_shape(*state, &draws, 4999, 16);
    check_shape(*state, &draws, 401, 320);
    check_shape(*state, &draws, 33000, 1);
}

static void a_constant_channel_has_variance_zero_and_stays_finite(void **state)
{
    struct kernel_pools *pools = *state;
    const struct batch_norm_shape shape = {.M = 1000, .C = 1, .epsilon = 1e-5, .momentum = 0.1};
    struct compute compute = compute_init(pools->pool[0], batch_norm_workspace(shape.M, shape.C));
    float *x = calloc(shape.M, sizeof(float));
    float *y = calloc(shape.M, sizeof(float));
    assert_non_null(x);
    assert_non_null(y);
    for (size_t i = 0; i < shape.M; i++) {
        x[i] = 1234.567f;
    }
    float weight = 1.0f;
    float bias = 0.5f;
    float mean = 0.0f;
    float variance = 1.0f;
    float saved[BATCH_NORM_SAVED];
    batch_norm_forward(&compute, &shape, x, &weight, &bias, &mean, &variance, saved, y);
    assert_true(fabsf(variance - 0.9f) < 1e-6f);
    for (size_t i = 0; i < shape.M; i++) {
        assert_true(fabsf(y[i] - 0.5f) < 0.1f);
    }
    free(x);
    free(y);
    compute_done(&compute);
}

/* The gradient of a frozen layer: dy, where the activation is not flat, times the factor of its
 * evaluation. */
static void check_frozen(const struct kernel_pools *pools, struct draws *draws,
                         struct batch_norm_shape shape)
{
    bool accumulate = draw_size(draws, 0, 1);
    size_t count = shape.M * shape.C;
    float *x = draw_floats(draws, count);
    float *weight = draw_floats(draws, shape.C);
    float *bias = draw_floats(draws, shape.C);
    float *mean = draw_floats(draws, shape.C);
    float *variance = draw_floats(draws, shape.C);
    float *dy = draw_floats(draws, count);
    float *start = draw_floats(draws, count);
    float *y = copy_floats(x, count);
    float *expected = copy_floats(start, count);
    struct batch_norm_shape plain = shape;
    plain.relu = false;
    for (size_t c = 0; c < shape.C; c++) {
        variance[c] = variance[c] * 0.5f + 1.0f;
    }
    for (size_t i = 0; i < KERNEL_POOLS; i++) {
        struct compute compute =
            compute_init(pools->pool[i], batch_norm_workspace(shape.M, shape.C));
        float *dx = copy_floats(accumulate ? start : dy, count);
        batch_norm_evaluate(&compute, &plain, x, weight, bias, mean, variance, y);
        for (size_t k = 0; k < count; k++) {
            double scale =
                (double)weight[k % shape.C] / sqrt((double)variance[k % shape.C] + shape.epsilon);
            bool flat = shape.relu && (y[k] <= 0.0f ||
                                       (shape.ceiling != RELU_NO_CEILING && y[k] >= shape.ceiling));
            expected[k] = (float)((accumulate ? (double)start[k] : 0.0) +
                                  (flat ? 0.0 : (double)dy[k] * scale));
        }
        batch_norm_backward_frozen(&compute, &shape, x, weight, bias, mean, variance,
                                   accumulate ? dy : dx, dx, accumulate);
        assert_close(dx, expected, count, TOLERANCE);
        free(dx);
        compute_done(&compute);
    }
    float *all[] = {x, weight, bias, mean, variance, dy, start, y, expected};
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        free(all[k]);
    }
}

static void a_frozen_layer_hands_back_the_gradient_of_its_evaluation(void **state)
{
    struct draws draws = draws_new(9);
    for (size_t i = 0; i < 30; i++) {
        struct batch_norm_shape shape = {.M = draw_size(&draws, 1, i % 3 ? 90 : 9000),
                                         .C = draw_size(&draws, 1, 40),
                                         .epsilon = 1e-5,
                                         .momentum = 0.1,
                                         .relu = i % 2,
                                         .ceiling = i % 4 == 1 ? 0.5f : RELU_NO_CEILING};
        check_frozen(*state, &draws, shape);
    }
}

/* The same numbers, bit for bit, as the two ops in sequence; and again from the saved data. */
static void a_following_relu_runs_in_the_same_passes(void **state)
{
    const struct kernel_pools *pools = *state;
    struct draws draws = draws_new(7);
    for (int i = 0; i < 12; i++) {
        struct batch_norm_shape shape = {.M = draw_size(&draws, 2, 90),
                                         .C = draw_size(&draws, 1, 40),
                                         .epsilon = 1e-5,
                                         .momentum = 0.1};
        float ceiling = i % 2 ? 1.5f : RELU_NO_CEILING;
        size_t count = shape.M * shape.C;
        struct compute compute =
            compute_init(pools->pool[0], batch_norm_workspace(shape.M, shape.C));
        float *x = draw_floats(&draws, count);
        float *weight = draw_floats(&draws, shape.C);
        float *bias = draw_floats(&draws, shape.C);
        float *dy = draw_floats(&draws, count);
        float *statistics = draw_floats(&draws, 2 * shape.C);
        struct {
            float *y, *evaluated, *dx, *sums, *statistics, *saved;
        } side[2];
        for (size_t fused = 0; fused < 2; fused++) {
            struct batch_norm_shape s = shape;
            s.relu = fused == 1;
            s.ceiling = ceiling;
            float *running = copy_floats(statistics, 2 * s.C);
            float *y = copy_floats(x, count);
            float *evaluated = copy_floats(x, count);
            float *dx = copy_floats(dy, count);
            float *sums = copy_floats(statistics, 2 * s.C);
            float *saved = copy_floats(x, 0);
            saved = realloc(saved, BATCH_NORM_SAVED * s.C * sizeof(float));
            assert_non_null(saved);
            batch_norm_forward(&compute, &s, x, weight, bias, running, running + s.C, saved, y);
            batch_norm_evaluate(&compute, &s, x, weight, bias, running, running + s.C, evaluated);
            float *again = copy_floats(dy, count);
            batch_norm_again(&compute, &s, x, saved, again);
            assert_memory_equal(again, y, count * sizeof(float));
            free(again);
            if (!fused) {
                relu_forward(&compute, count, ceiling, y, y);
                relu_forward(&compute, count, ceiling, evaluated, evaluated);
                relu_backward(&compute, count, ceiling, y, dx, dx, false);
            }
            batch_norm_backward(&compute, &s, x, weight, saved, dx, dx, false, sums, sums + s.C);
            side[fused].y = y;
            side[fused].evaluated = evaluated;
            side[fused].dx = dx;
            side[fused].sums = sums;
            side[fused].statistics = running;
            side[fused].saved = saved;
        }
        assert_memory_equal(side[0].y, side[1].y, count * sizeof(float));
        assert_memory_equal(side[0].evaluated, side[1].evaluated, count * sizeof(float));
        assert_memory_equal(side[0].dx, side[1].dx, count * sizeof(float));
        assert_memory_equal(side[0].sums, side[1].sums, 2 * shape.C * sizeof(float));
        assert_memory_equal(side[0].statistics, side[1].statistics, 2 * shape.C * sizeof(float));
        for (size_t k = 0; k < 2; k++) {
            float *all[] = {side[k].y,    side[k].evaluated,  side[k].dx,
                            side[k].sums, side[k].statistics, side[k].saved};
            for (size_t j = 0; j < sizeof(all) / sizeof(all[0]); j++) {
                free(all[j]);
            }
        }
        float *all[] = {x, weight, bias, dy, statistics};
        for (size_t j = 0; j < sizeof(all) / sizeof(all[0]); j++) {
            free(all[j]);
        }
        compute_done(&compute);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_of_any_shape_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(layers_of_several_slabs_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(a_constant_channel_has_variance_zero_and_stays_finite),
        cmocka_unit_test(a_frozen_layer_hands_back_the_gradient_of_its_evaluation),
        cmocka_unit_test(a_following_relu_runs_in_the_same_passes),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
