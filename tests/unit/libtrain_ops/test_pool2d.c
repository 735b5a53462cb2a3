#include <math.h>
#include <stdlib.h>

#include "libtrain/ops/pool2d.h"
#include "tests/unit/libtrain_ops/kernel_support.h"
#include "tests/unit/libtrain_ops/naive.h"

#define TOLERANCE 2e-6

struct pool2d_result {
    float *y, *dx;
};

struct pool2d_case {
    struct pool2d_shape shape;
    bool maximum, accumulate;
    size_t inputs, outputs;
    float *x, *dy, *start_dx;
};

static struct pool2d_result run(const struct pool2d_case *c, struct train_pool *pool)
{
    struct compute compute = compute_init(pool, (struct workspace_bytes){0});
    struct pool2d_result r = {.y = copy_floats(c->dy, c->outputs),
                              .dx = copy_floats(c->start_dx, c->inputs)};
    if (c->maximum) {
        uint16_t *position = calloc(c->outputs, sizeof(*position));
        float *evaluated = copy_floats(c->dy, c->outputs);
        assert_non_null(position);
        max_pool_forward(&compute, &c->shape, c->x, evaluated, NULL);
        max_pool_forward(&compute, &c->shape, c->x, r.y, position);
        assert_memory_equal(r.y, evaluated, c->outputs * sizeof(float));
        max_pool_backward(&compute, &c->shape, position, c->dy, r.dx, c->accumulate);
        free(position);
        free(evaluated);
    } else {
        avg_pool_forward(&compute, &c->shape, c->x, r.y);
        avg_pool_backward(&compute, &c->shape, c->dy, r.dx, c->accumulate);
    }
    compute_done(&compute);
    return r;
}

static void check_against_naive(const struct pool2d_case *c, const struct pool2d_result *r)
{
    double *x = widen(c->x, c->inputs);
    double *dy = widen(c->dy, c->outputs);
    double *y = zeros(c->outputs);
    double *dx = zeros(c->inputs);
    if (c->maximum) {
        naive_max_pool_forward(&c->shape, x, y);
        naive_max_pool_backward(&c->shape, x, dy, dx);
    } else {
        naive_avg_pool_forward(&c->shape, x, y);
        naive_avg_pool_backward(&c->shape, dy, dx);
    }
    assert_close_to_oracle(r->y, NULL, y, c->outputs, TOLERANCE);
    assert_close_to_oracle(r->dx, c->accumulate ? c->start_dx : NULL, dx, c->inputs, TOLERANCE);
    free(x);
    free(dy);
    free(y);
    free(dx);
}

static void check_shape(const struct kernel_pools *pools, struct draws *draws,
                        struct pool2d_shape shape, bool maximum)
{
    struct pool2d_case c = {.shape = shape,
                            .maximum = maximum,
                            .accumulate = draw_size(draws, 0, 1),
                            .inputs = shape.N * shape.H * shape.W * shape.C,
                            .outputs = shape.N * shape.OH * shape.OW * shape.C};
    c.x = draw_floats(draws, c.inputs);
    c.dy = draw_floats(draws, c.outputs);
    c.start_dx = draw_floats(draws, c.inputs);
    for (size_t i = 0; maximum && i < c.inputs; i++) {
        c.x[i] = roundf(c.x[i] * 4.0f); /* equal values, to see which one wins */
    }
    struct pool2d_result first = run(&c, pools->pool[0]);
    check_against_naive(&c, &first);
    for (size_t i = 1; i < KERNEL_POOLS; i++) {
        struct pool2d_result other = run(&c, pools->pool[i]);
        assert_memory_equal(first.y, other.y, c.outputs * sizeof(float));
        assert_memory_equal(first.dx, other.dx, c.inputs * sizeof(float));
        free(other.y);
        free(other.dx);
    }
    free(first.y);
    free(first.dx);
    free(c.x);
    free(c.dy);
    free(c.start_dx);
}

/* One dimension of a window and of its input. */
struct line {
    size_t K, S, P, size, outputs;
};

/* Every other one with a rest of a window at the end, where the sizes leave one: ceil mode. */
static struct line draw_line(struct draws *draws)
{
    struct line line = {.K = draw_size(draws, 1, 5), .S = draw_size(draws, 1, 3)};
    line.size = draw_size(draws, line.K, line.K + 9);
    line.P = draw_size(draws, 0, line.K / 2);
    size_t way = line.size + 2 * line.P - line.K;
    line.outputs = way / line.S + 1;
    bool rest = way % line.S > 0 && line.outputs * line.S < line.size + line.P;
    line.outputs += rest && draw_size(draws, 0, 1);
    return line;
}

static void check_many(void **state, uint64_t seed, bool maximum)
{
    struct draws draws = draws_new(seed);
    for (int i = 0; i < 60; i++) {
        struct line h = draw_line(&draws);
        struct line w = draw_size(&draws, 0, 1) ? h : draw_line(&draws);
        struct pool2d_shape shape = {.N = draw_size(&draws, 1, 5),
                                     .H = h.size,
                                     .W = w.size,
                                     .C = draw_size(&draws, 1, 20),
                                     .KH = h.K,
                                     .KW = w.K,
                                     .SH = h.S,
                                     .SW = w.S,
                                     .PH = h.P,
                                     .PW = w.P,
                                     .OH = h.outputs,
                                     .OW = w.outputs};
        check_shape(*state, &draws, shape, maximum);
    }
    check_shape(*state, &draws, (struct pool2d_shape){8, 24, 24, 32, 2, 2, 2, 2, 0, 0, 12, 12},
                maximum);
}

static void maximum_pools_of_any_shape_match_the_oracle_at_any_thread_count(void **state)
{
    check_many(state, 31, true);
}

static void average_pools_of_any_shape_match_the_oracle_at_any_thread_count(void **state)
{
    check_many(state, 32, false);
}

static void the_global_average_is_the_average_over_the_whole_plane(void **state)
{
    struct kernel_pools *pools = *state;
    struct draws draws = draws_new(33);
    for (int i = 0; i < 20; i++) {
        struct pool2d_shape shape = {.N = draw_size(&draws, 1, 9),
                                     .C = draw_size(&draws, 1, 200),
                                     .SH = 1,
                                     .SW = 1,
                                     .OH = 1,
                                     .OW = 1};
        shape.H = shape.W = shape.KH = shape.KW = draw_size(&draws, 1, 9);
        size_t inputs = shape.N * shape.H * shape.W * shape.C;
        size_t outputs = shape.N * shape.C;
        float *x = draw_floats(&draws, inputs);
        float *dy = draw_floats(&draws, outputs);
        float *start = draw_floats(&draws, inputs);
        bool accumulate = draw_size(&draws, 0, 1);
        double *wide_x = widen(x, inputs);
        double *wide_dy = widen(dy, outputs);
        double *y_oracle = zeros(outputs);
        double *dx_oracle = zeros(inputs);
        naive_avg_pool_forward(&shape, wide_x, y_oracle);
        naive_avg_pool_backward(&shape, wide_dy, dx_oracle);
        for (size_t p = 0; p < KERNEL_POOLS; p++) {
            struct compute compute = compute_init(pools->pool[p], (struct workspace_bytes){0});
            float *y = draw_floats(&draws, outputs);
            float *dx = copy_floats(start, inputs);
            global_avg_pool_forward(&compute, shape.N, shape.H * shape.W, shape.C, x, y);
            global_avg_pool_backward(&compute, shape.N, shape.H * shape.W, shape.C, dy, dx,
                                     accumulate);
            assert_close_to_oracle(y, NULL, y_oracle, outputs, TOLERANCE);
            assert_close_to_oracle(dx, accumulate ? start : NULL, dx_oracle, inputs, TOLERANCE);
            free(y);
            free(dx);
            compute_done(&compute);
        }
        free(x);
        free(dy);
        free(start);
        free(wide_x);
        free(wide_dy);
        free(y_oracle);
        free(dx_oracle);
    }
}

static void a_value_that_is_not_a_number_survives_the_maximum(void **state)
{
    struct kernel_pools *pools = *state;
    struct compute compute = compute_init(pools->pool[0], (struct workspace_bytes){0});
    const struct pool2d_shape shape = {1, 2, 2, 1, 2, 2, 2, 2, 0, 0, 1, 1};
    for (size_t at = 0; at < 4; at++) {
        float x[4] = {1.0f, 2.0f, 3.0f, 4.0f};
        float y = 0.0f;
        uint16_t position = 9;
        x[at] = NAN;
        max_pool_forward(&compute, &shape, x, &y, &position);
        assert_true(isnan(y));
        assert_int_equal(position, at);
    }
    compute_done(&compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maximum_pools_of_any_shape_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(average_pools_of_any_shape_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(the_global_average_is_the_average_over_the_whole_plane),
        cmocka_unit_test(a_value_that_is_not_a_number_survives_the_maximum),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
