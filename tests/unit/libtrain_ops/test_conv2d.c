#include <stdlib.h>

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/conv2d_kernel.h"
#include "libtrain/kernels/direct_plan.h"
#include "libtrain/kernels/winograd_plan.h"
#include "libtrain/ops/conv2d.h"
#include "tests/unit/libtrain_ops/kernel_support.h"
#include "tests/unit/libtrain_ops/naive.h"

/* Random shapes are fewer where a sanitizer makes each take ten times as long. */
#if defined(SIMD_BASELINE_ONLY)
#define FEWER 3
#else
#define FEWER 1
#endif
#define TOLERANCE 3e-6
#define WINOGRAD_TOLERANCE 3e-5

/* All tensors of one convolution; outputs start with random numbers. */
struct conv2d_case {
    struct conv2d_shape shape;
    struct conv2d_kernels kernels;
    bool bias, accumulate;
    size_t inputs, weights, outputs;
    float *x, *weight, *imported, *bias_values, *dy;
    float *start_dx, *start_dweight, *start_dbias;
};

/* The results of the kernels. */
struct conv2d_result {
    float *y, *dx, *dweight, *dbias;
};

static struct conv2d_case case_new(struct draws *draws, struct conv2d_shape shape)
{
    struct conv2d_case c = {.shape = shape};
    c.shape.OH = (shape.H + 2 * shape.PH - shape.KH) / shape.SH + 1;
    c.shape.OW = (shape.W + 2 * shape.PW - shape.KW) / shape.SW + 1;
    c.bias = draw_size(draws, 0, 1);
    c.accumulate = draw_size(draws, 0, 1);
    c.inputs = shape.N * shape.H * shape.W * shape.C;
    c.weights = shape.O * shape.KH * shape.KW * shape.C / shape.G;
    c.outputs = shape.N * c.shape.OH * c.shape.OW * shape.O;
    c.x = draw_floats(draws, c.inputs);
    c.weight = draw_floats(draws, c.weights);
    c.bias_values = draw_floats(draws, shape.O);
    c.dy = draw_floats(draws, c.outputs);
    c.start_dx = draw_floats(draws, c.inputs);
    c.start_dweight = draw_floats(draws, c.weights);
    c.start_dbias = draw_floats(draws, shape.O);
    c.imported = copy_floats(c.weight, c.weights);
    conv2d_import(&c.shape, c.weight, c.imported);
    return c;
}

static void case_done(struct conv2d_case *c)
{
    float *all[] = {c->x,  c->weight,   c->imported,      c->bias_values,
                    c->dy, c->start_dx, c->start_dweight, c->start_dbias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static struct conv2d_result run(const struct conv2d_case *c, struct train_pool *pool)
{
    struct compute compute = compute_init(pool, conv2d_workspace(&c->shape, c->kernels));
    struct conv2d_result r = {.y = copy_floats(c->dy, c->outputs),
                              .dx = copy_floats(c->start_dx, c->inputs),
                              .dweight = copy_floats(c->start_dweight, c->weights),
                              .dbias = copy_floats(c->start_dbias, c->shape.O)};
    conv2d_import(&c->shape, c->start_dweight, r.dweight);
    conv2d_forward(&compute, &c->shape, c->kernels, c->x, c->imported,
                   c->bias ? c->bias_values : NULL, r.y);
    conv2d_backward_data(&compute, &c->shape, c->kernels, c->dy, c->imported, r.dx, c->accumulate);
    conv2d_backward_weights(&compute, &c->shape, c->kernels, c->x, c->dy, r.dweight);
    if (c->bias) {
        conv2d_backward_bias(&compute, &c->shape, c->dy, r.dbias);
    }
    compute_done(&compute);
    float *exported = copy_floats(r.dweight, c->weights);
    conv2d_export(&c->shape, r.dweight, exported);
    free(r.dweight);
    r.dweight = exported;
    return r;
}

static void result_done(struct conv2d_result *r)
{
    free(r->y);
    free(r->dx);
    free(r->dweight);
    free(r->dbias);
}

static void check_against_naive(const struct conv2d_case *c, const struct conv2d_result *r)
{
    double *x = widen(c->x, c->inputs);
    double *weight = widen(c->weight, c->weights);
    double *bias = widen(c->bias_values, c->shape.O);
    double *dy = widen(c->dy, c->outputs);
    double *y = zeros(c->outputs);
    double *dx = zeros(c->inputs);
    double *dweight = zeros(c->weights);
    double *dbias = zeros(c->shape.O);
    double tolerance = c->kernels.pass[0] == CONV2D_WINOGRAD4 ? WINOGRAD_TOLERANCE : TOLERANCE;
    naive_conv2d_forward(&c->shape, x, weight, c->bias ? bias : NULL, y);
    naive_conv2d_backward(&c->shape, x, weight, dy, dx, dweight, c->bias ? dbias : NULL);
    assert_close_to_oracle(r->y, NULL, y, c->outputs, tolerance);
    assert_close_to_oracle(r->dx, c->accumulate ? c->start_dx : NULL, dx, c->inputs, tolerance);
    assert_close_to_oracle(r->dweight, c->start_dweight, dweight, c->weights, tolerance);
    assert_close_to_oracle(r->dbias, c->start_dbias, dbias, c->shape.O, tolerance);
    double *all[] = {x, weight, bias, dy, y, dx, dweight, dbias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void check_kernels(const struct kernel_pools *pools, const struct conv2d_case *c)
{
    struct conv2d_result first = run(c, pools->pool[0]);
    check_against_naive(c, &first);
    for (size_t i = 1; i < KERNEL_POOLS; i++) {
        struct conv2d_result other = run(c, pools->pool[i]);
        assert_memory_equal(first.y, other.y, c->outputs * sizeof(float));
        assert_memory_equal(first.dx, other.dx, c->inputs * sizeof(float));
        assert_memory_equal(first.dweight, other.dweight, c->weights * sizeof(float));
        assert_memory_equal(first.dbias, other.dbias, c->shape.O * sizeof(float));
        result_done(&other);
    }
    result_done(&first);
}

/* Each of our kernels, in the passes that it can do. */
static void check_shape(const struct kernel_pools *pools, struct draws *draws,
                        struct conv2d_shape shape)
{
    struct conv2d_case c = case_new(draws, shape);
    size_t kernels = 0;
    for (enum conv2d_kernel kernel = CONV2D_COLUMNS; conv2d_kernel_names[kernel]; kernel++) {
        if (conv2d_kernel_is_onednn(kernel) ||
            !conv2d_kernel_can(kernel, &c.shape, CONV2D_FORWARD)) {
            continue;
        }
        for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
            bool can = conv2d_kernel_can(kernel, &c.shape, (enum conv2d_pass)pass);
            c.kernels.pass[pass] = can ? (uint8_t)kernel : CONV2D_BY_SHAPE;
        }
        check_kernels(pools, &c);
        kernels++;
    }
    assert_true(kernels > 0);
    case_done(&c);
}

/* One dimension of a window and of its input. */
struct line {
    size_t K, S, P, size;
};

static struct line draw_line(struct draws *draws)
{
    struct line line = {.K = draw_size(draws, 1, 5)};
    line.P = draw_size(draws, 0, line.K - 1);
    size_t least = line.K > 2 * line.P ? line.K - 2 * line.P : 1;
    line.size = draw_size(draws, least, least + 9);
    line.S = draw_size(draws, 1, 3);
    return line;
}

/* Half of them with square windows, the kernels' usual way. */
static struct conv2d_shape draw_shape(struct draws *draws, size_t G, size_t channels,
                                      size_t filters)
{
    struct line h = draw_line(draws);
    struct line w = draw_line(draws);
    if (draw_size(draws, 0, 1)) {
        w = (struct line){h.K, h.S, h.P, h.size + draw_size(draws, 0, 9)};
    }
    return (struct conv2d_shape){.N = draw_size(draws, 1, 5),
                                 .H = h.size,
                                 .W = w.size,
                                 .C = G * channels,
                                 .O = G * filters,
                                 .KH = h.K,
                                 .KW = w.K,
                                 .SH = h.S,
                                 .SW = w.S,
                                 .PH = h.P,
                                 .PW = w.P,
                                 .G = G};
}

static void plain_convolutions_of_any_shape_match_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(1);
    for (int i = 0; i < 40 / FEWER; i++) {
        check_shape(*state, &draws,
                    draw_shape(&draws, 1, draw_size(&draws, 1, 19), draw_size(&draws, 1, 19)));
    }
}

static void grouped_convolutions_of_any_shape_match_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(2);
    for (int i = 0; i < 25 / FEWER; i++) {
        size_t G = draw_size(&draws, 2, 4);
        check_shape(*state, &draws,
                    draw_shape(&draws, G, draw_size(&draws, 1, 5), draw_size(&draws, 2, 5)));
    }
}

static void depthwise_convolutions_of_any_shape_match_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(3);
    for (int i = 0; i < 40 / FEWER; i++) {
        check_shape(*state, &draws, draw_shape(&draws, draw_size(&draws, 2, 40), 1, 1));
    }
}

/* Large enough that each pass is split into several slabs, of each kind. */
static void convolutions_of_several_slabs_match_the_oracle_at_any_thread_count(void **state)
{
    static const struct conv2d_shape shapes[] = {
        /* N, H, W, C, O, KH, KW, SH, SW, PH, PW, G */
        {3, 28, 27, 1, 6, 5, 5, 1, 1, 0, 0, 1, 0, 0},     /* partial sums of weights */
        {2, 9, 9, 96, 80, 3, 3, 1, 1, 1, 1, 1, 0, 0},     /* ranges of positions */
        {2, 8, 8, 300, 260, 1, 1, 1, 1, 0, 0, 1, 0, 0},   /* ranges of channels */
        {2, 16, 15, 300, 260, 1, 1, 2, 2, 0, 0, 1, 0, 0}, /* the same, with columns */
        {4, 17, 16, 64, 64, 3, 3, 2, 2, 1, 1, 64, 0, 0},  /* depthwise */
        {9, 4, 4, 24, 40, 3, 3, 1, 1, 1, 1, 1, 0, 0},     /* several samples a slab */
        {2, 24, 24, 16, 96, 1, 1, 1, 1, 0, 0, 1, 0, 0},
        {4, 49, 10, 1, 64, 10, 4, 2, 2, 5, 1, 1, 0, 0}, /* the first layer of dscnn-kws */
        {2, 5, 7, 100, 96, 1, 7, 1, 1, 0, 3, 1, 0, 0},  /* one row */
        {2, 7, 5, 100, 96, 7, 1, 1, 1, 3, 0, 1, 0, 0},  /* one column */
        {4, 17, 30, 64, 64, 5, 2, 1, 2, 2, 0, 64, 0, 0},
        {2, 9, 9, 16, 32, 3, 3, 1, 1, 1, 0, 1, 0, 0}, /* Winograd except its padding */
    };
    struct draws draws = draws_new(4);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        check_shape(*state, &draws, shapes[i]);
    }
}

/* Whole and partial tiles, one and several blocks of them, parts of channels, partial sums. */
static void winograd_convolutions_match_the_oracle_at_any_thread_count(void **state)
{
    static const struct conv2d_shape shapes[] = {
        {1, 4, 4, 16, 16, 3, 3, 1, 1, 1, 1, 1, 0, 0},
        {3, 7, 9, 16, 48, 3, 3, 1, 1, 1, 1, 1, 0, 0},
        {2, 14, 13, 48, 16, 3, 3, 1, 1, 0, 0, 1, 0, 0},
        {2, 6, 6, 32, 80, 3, 3, 1, 1, 2, 2, 1, 0, 0},
        {3, 16, 16, 64, 64, 3, 3, 1, 1, 1, 1, 1, 0, 0},
        {3, 4, 4, 144, 160, 3, 3, 1, 1, 1, 1, 1, 0, 0},
    };
    struct draws draws = draws_new(6);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct conv2d_shape shape = shapes[i];
        shape.OH = shape.H + 2 * shape.PH - 2;
        shape.OW = shape.W + 2 * shape.PW - 2;
        assert_true(conv2d_is_winograd(&shape));
        check_shape(*state, &draws, shape);
    }
}

/* The same with zeros after the last channel, in the last vector of a panel and in parts. */
static void winograd_convolutions_of_other_channels_match_the_oracle(void **state)
{
    static const struct conv2d_shape shapes[] = {
        {1, 4, 4, 17, 16, 3, 3, 1, 1, 1, 1, 1, 0, 0},
        {1, 4, 4, 16, 17, 3, 3, 1, 1, 1, 1, 1, 0, 0},
        {3, 7, 9, 31, 36, 3, 3, 1, 1, 1, 1, 1, 0, 0},
        {2, 14, 13, 52, 24, 3, 3, 1, 1, 0, 0, 1, 0, 0},
        {2, 6, 6, 40, 67, 3, 3, 1, 1, 2, 2, 1, 0, 0},
        {2, 4, 4, 139, 100, 3, 3, 1, 1, 1, 1, 1, 0, 0},
    };
    struct draws draws = draws_new(8);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct conv2d_shape shape = shapes[i];
        shape.OH = shape.H + 2 * shape.PH - 2;
        shape.OW = shape.W + 2 * shape.PW - 2;
        assert_true(conv2d_can_winograd(&shape));
        assert_int_equal(
            conv2d_kernels_resolve((struct conv2d_kernels){{0}}, &shape, CONV2D_BACKEND_OWN)
                .pass[CONV2D_FORWARD],
            CONV2D_COLUMNS);
        check_shape(*state, &draws, shape);
    }
}

/* One and several strips, windows that end in the padding, every rest of filters and columns that
 * vectors leave. */
static void convolutions_of_few_channels_match_the_oracle_at_any_thread_count(void **state)
{
    static const struct conv2d_shape shapes[] = {
        {1, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 1, 0, 0},
        {5, 32, 32, 3, 6, 5, 5, 1, 1, 2, 2, 1, 0, 0},
        {3, 14, 14, 6, 16, 5, 5, 1, 1, 0, 0, 1, 0, 0},
        {2, 65, 70, 3, 64, 7, 7, 2, 2, 3, 3, 1, 0, 0},
        {2, 33, 31, 8, 40, 3, 3, 2, 1, 1, 2, 1, 0, 0},
        {1, 3, 900, 8, 7, 2, 8, 1, 3, 0, 7, 1, 0, 0},
        {2, 96, 200, 1, 5, 4, 3, 3, 2, 3, 0, 1, 0, 0},
    };
    struct draws draws = draws_new(7);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        assert_true(conv2d_is_direct(&shapes[i]));
        check_shape(*state, &draws, shapes[i]);
    }
}

static void importing_and_exporting_weights_gives_them_back(void **state)
{
    (void)state;
    struct draws draws = draws_new(5);
    static const struct conv2d_shape shapes[] = {{.C = 6, .O = 4, .KH = 3, .KW = 3, .G = 2},
                                                 {.C = 5, .O = 5, .KH = 3, .KW = 3, .G = 5},
                                                 {.C = 6, .O = 4, .KH = 2, .KW = 5, .G = 2},
                                                 {.C = 5, .O = 5, .KH = 4, .KW = 3, .G = 5}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        size_t count = shapes[i].O * shapes[i].KH * shapes[i].KW * shapes[i].C / shapes[i].G;
        float *weight = draw_floats(&draws, count);
        float *ours = draw_floats(&draws, count);
        float *back = draw_floats(&draws, count);
        conv2d_import(&shapes[i], weight, ours);
        conv2d_export(&shapes[i], ours, back);
        assert_memory_equal(weight, back, count * sizeof(float));
        assert_memory_not_equal(weight, ours, count * sizeof(float));
        free(weight);
        free(ours);
        free(back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_convolutions_of_any_shape_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(grouped_convolutions_of_any_shape_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(depthwise_convolutions_of_any_shape_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(convolutions_of_several_slabs_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(winograd_convolutions_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(winograd_convolutions_of_other_channels_match_the_oracle),
        cmocka_unit_test(convolutions_of_few_channels_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(importing_and_exporting_weights_gives_them_back),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
