#include <stdlib.h>

#include "libtrain/ops/linear.h"
#include "tests/unit/libtrain_ops/kernel_support.h"
#include "tests/unit/libtrain_ops/naive.h"

#define TOLERANCE 3e-6

struct linear_result {
    float *y, *dx, *dweight, *dbias;
};

struct linear_case {
    struct linear_shape shape;
    struct shape flat;
    bool bias, accumulate;
    float *x, *weight, *bias_values, *dy, *start_dx, *start_dweight, *start_dbias;
};

static struct linear_result run(const struct linear_case *c, struct train_pool *pool)
{
    const struct linear_shape *s = &c->shape;
    struct compute compute = compute_init(pool, (struct workspace_bytes){0});
    float *imported = copy_floats(c->weight, s->O * s->F);
    float *dweight = copy_floats(c->weight, s->O * s->F);
    struct linear_result r = {.y = copy_floats(c->dy, s->N * s->O),
                              .dx = copy_floats(c->start_dx, s->N * s->F),
                              .dweight = copy_floats(c->weight, s->O * s->F),
                              .dbias = copy_floats(c->start_dbias, s->O)};
    linear_import(s->O, c->flat, c->weight, imported);
    linear_import(s->O, c->flat, c->start_dweight, dweight);
    linear_forward(&compute, s, c->x, imported, c->bias ? c->bias_values : NULL, r.y);
    linear_backward_data(&compute, s, c->dy, imported, r.dx, c->accumulate);
    linear_backward_weights(&compute, s, c->x, c->dy, dweight, c->bias ? r.dbias : NULL);
    linear_export(s->O, c->flat, dweight, r.dweight);
    free(imported);
    free(dweight);
    compute_done(&compute);
    return r;
}

static void result_done(struct linear_result *r)
{
    free(r->y);
    free(r->dx);
    free(r->dweight);
    free(r->dbias);
}

static void check_against_naive(const struct linear_case *c, const struct linear_result *r)
{
    const struct linear_shape *s = &c->shape;
    double *x = widen(c->x, s->N * s->F);
    double *weight = widen(c->weight, s->O * s->F);
    double *bias = widen(c->bias_values, s->O);
    double *dy = widen(c->dy, s->N * s->O);
    double *y = zeros(s->N * s->O);
    double *dx = zeros(s->N * s->F);
    double *dweight = zeros(s->O * s->F);
    double *dbias = zeros(s->O);
    naive_linear_forward(s, c->flat, x, weight, c->bias ? bias : NULL, y);
    naive_linear_backward(s, c->flat, x, weight, dy, dx, dweight, dbias);
    assert_close_to_oracle(r->y, NULL, y, s->N * s->O, TOLERANCE);
    assert_close_to_oracle(r->dx, c->accumulate ? c->start_dx : NULL, dx, s->N * s->F, TOLERANCE);
    assert_close_to_oracle(r->dweight, c->start_dweight, dweight, s->O * s->F, TOLERANCE);
    if (c->bias) {
        assert_close_to_oracle(r->dbias, c->start_dbias, dbias, s->O, TOLERANCE);
    }
    double *all[] = {x, weight, bias, dy, y, dx, dweight, dbias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void check_shape(const struct kernel_pools *pools, struct draws *draws, struct shape flat,
                        size_t N, size_t O)
{
    size_t F = shape_elements(flat);
    struct linear_case c = {.shape = {.N = N, .F = F, .O = O},
                            .flat = flat,
                            .bias = draw_size(draws, 0, 1),
                            .accumulate = draw_size(draws, 0, 1),
                            .x = draw_floats(draws, N * F),
                            .weight = draw_floats(draws, O * F),
                            .bias_values = draw_floats(draws, O),
                            .dy = draw_floats(draws, N * O),
                            .start_dx = draw_floats(draws, N * F),
                            .start_dweight = draw_floats(draws, O * F),
                            .start_dbias = draw_floats(draws, O)};
    struct linear_result first = run(&c, pools->pool[0]);
    check_against_naive(&c, &first);
    for (size_t i = 1; i < KERNEL_POOLS; i++) {
        struct linear_result other = run(&c, pools->pool[i]);
        assert_memory_equal(first.y, other.y, N * O * sizeof(float));
        assert_memory_equal(first.dx, other.dx, N * F * sizeof(float));
        assert_memory_equal(first.dweight, other.dweight, O * F * sizeof(float));
        assert_memory_equal(first.dbias, other.dbias, O * sizeof(float));
        result_done(&other);
    }
    result_done(&first);
    float *all[] = {c.x, c.weight, c.bias_values, c.dy, c.start_dx, c.start_dweight, c.start_dbias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void layers_of_any_shape_match_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(11);
    for (int i = 0; i < 40; i++) {
        struct shape flat = {(uint32_t)draw_size(&draws, 1, 4), (uint32_t)draw_size(&draws, 1, 4),
                             (uint32_t)draw_size(&draws, 1, 9)};
        size_t N = draw_size(&draws, 1, 9);
        check_shape(*state, &draws, flat, N, draw_size(&draws, 1, 33));
    }
}

static void layers_of_several_slabs_match_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(12);
    check_shape(*state, &draws, (struct shape){7, 7, 11}, 5, 127);
    check_shape(*state, &draws, (struct shape){1, 1, 400}, 3, 190);
    check_shape(*state, &draws, (struct shape){28, 28, 1}, 8, 257);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_of_any_shape_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(layers_of_several_slabs_match_the_oracle_at_any_thread_count),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
