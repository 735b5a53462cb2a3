#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/ops/layer_norm.h"
#include "tests/unit/libtrain_ops/kernel_support.h"
#include "tests/unit/libtrain_ops/naive.h"

#define TOLERANCE 3e-6

struct layer_norm_case {
    struct layer_norm_shape shape;
    bool accumulate, in_place;
    float *x, *weight, *bias, *dy, *start_dx, *start_dweight, *start_dbias;
};

struct layer_norm_result {
    float *y, *dx, *dweight, *dbias;
};

static struct layer_norm_result run(const struct layer_norm_case *c, struct train_pool *pool)
{
    const struct layer_norm_shape *s = &c->shape;
    size_t count = s->M * s->C;
    struct compute compute = compute_init(pool, layer_norm_workspace(s->M, s->C));
    float *saved = calloc(2 * s->M, sizeof(float));
    assert_non_null(saved);
    struct layer_norm_result r = {.y = copy_floats(c->dy, count),
                                  .dx = copy_floats(c->in_place ? c->dy : c->start_dx, count),
                                  .dweight = copy_floats(c->start_dweight, s->C),
                                  .dbias = copy_floats(c->start_dbias, s->C)};
    layer_norm_forward(&compute, s, c->x, c->weight, c->bias, saved, r.y);
    layer_norm_backward(&compute, s, c->x, c->weight, saved, c->in_place ? r.dx : c->dy, r.dx,
                        c->accumulate, r.dweight, r.dbias);
    float *evaluated = copy_floats(c->x, count);
    layer_norm_forward(&compute, s, evaluated, c->weight, c->bias, NULL, evaluated);
    assert_memory_equal(evaluated, r.y, count * sizeof(float));
    float *dweight = copy_floats(c->start_dweight, s->C);
    float *dbias = copy_floats(c->start_dbias, s->C);
    layer_norm_backward(&compute, s, c->x, c->weight, saved, c->dy, NULL, false, dweight, dbias);
    assert_memory_equal(dweight, r.dweight, s->C * sizeof(float));
    assert_memory_equal(dbias, r.dbias, s->C * sizeof(float));
    free(dweight);
    free(dbias);
    free(evaluated);
    free(saved);
    compute_done(&compute);
    return r;
}

static void result_done(struct layer_norm_result *r)
{
    free(r->y);
    free(r->dx);
    free(r->dweight);
    free(r->dbias);
}

static void check_against_naive(const struct layer_norm_case *c, const struct layer_norm_result *r)
{
    const struct layer_norm_shape *s = &c->shape;
    size_t count = s->M * s->C;
    double *x = widen(c->x, count);
    double *weight = widen(c->weight, s->C);
    double *bias = widen(c->bias, s->C);
    double *dy = widen(c->dy, count);
    double *y = zeros(count);
    double *dx = zeros(count);
    double *dweight = zeros(s->C);
    double *dbias = zeros(s->C);
    naive_layer_norm_forward(s, x, weight, bias, y);
    naive_layer_norm_backward(s, x, weight, dy, dx, dweight, dbias);
    assert_close_to_oracle(r->y, NULL, y, count, TOLERANCE);
    /* Rows of one or two channels: the gradient is the rest of terms that cancel. */
    assert_close_to_oracle(r->dx, c->accumulate ? c->start_dx : NULL, dx, count,
                           s->C < 4 ? 1.0 : TOLERANCE);
    assert_close_to_oracle(r->dweight, c->start_dweight, dweight, s->C, TOLERANCE);
    assert_close_to_oracle(r->dbias, c->start_dbias, dbias, s->C, TOLERANCE);
    double *all[] = {x, weight, bias, dy, y, dx, dweight, dbias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void check_shape(const struct kernel_pools *pools, struct draws *draws, size_t M, size_t C)
{
    size_t count = M * C;
    struct layer_norm_case c = {.shape = {.M = M, .C = C, .epsilon = 1e-5},
                                .accumulate = draw_size(draws, 0, 1),
                                .x = draw_floats(draws, count),
                                .weight = draw_floats(draws, C),
                                .bias = draw_floats(draws, C),
                                .dy = draw_floats(draws, count),
                                .start_dx = draw_floats(draws, count),
                                .start_dweight = draw_floats(draws, C),
                                .start_dbias = draw_floats(draws, C)};
    c.in_place = !c.accumulate && draw_size(draws, 0, 1);
    struct layer_norm_result first = run(&c, pools->pool[0]);
    check_against_naive(&c, &first);
    for (size_t i = 1; i < KERNEL_POOLS; i++) {
        struct layer_norm_result other = run(&c, pools->pool[i]);
        assert_memory_equal(first.y, other.y, count * sizeof(float));
        assert_memory_equal(first.dx, other.dx, count * sizeof(float));
        assert_memory_equal(first.dweight, other.dweight, C * sizeof(float));
        assert_memory_equal(first.dbias, other.dbias, C * sizeof(float));
        result_done(&other);
    }
    result_done(&first);
    float *all[] = {c.x, c.weight, c.bias, c.dy, c.start_dx, c.start_dweight, c.start_dbias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void layers_of_any_shape_match_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(321);
    for (int i = 0; i < 40; i++) {
        size_t M = draw_size(&draws, 1, 60);
        check_shape(*state, &draws, M, draw_size(&draws, 1, 90));
    }
}

static void layers_of_several_slabs_match_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(322);
    check_shape(*state, &draws, 2048, 128);
    check_shape(*state, &draws, 401, 320);
    check_shape(*state, &draws, 3, 40000);
}

static void a_constant_row_gives_the_bias_and_stays_finite(void **state)
{
    struct kernel_pools *pools = *state;
    const struct layer_norm_shape shape = {.M = 3, .C = 20, .epsilon = 1e-5};
    struct compute compute = compute_init(pools->pool[0], layer_norm_workspace(shape.M, shape.C));
    float x[60];
    float y[60];
    float weight[20];
    float bias[20];
    for (size_t i = 0; i < 60; i++) {
        x[i] = 1234.567f;
        weight[i % 20] = 2.0f;
        bias[i % 20] = 0.5f;
    }
    layer_norm_forward(&compute, &shape, x, weight, bias, NULL, y);
    for (size_t i = 0; i < 60; i++) {
        assert_true(y[i] == 0.5f);
    }
    compute_done(&compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_of_any_shape_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(layers_of_several_slabs_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(a_constant_row_gives_the_bias_and_stays_finite),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
