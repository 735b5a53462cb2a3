/* Every op, forward and backward, against PyTorch: per tensor max|a - b| / max|b| below 1e-4. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/ops/batch_norm.h"
#include "libtrain/ops/conv2d.h"
#include "libtrain/ops/join.h"
#include "libtrain/ops/linear.h"
#include "libtrain/ops/pool2d.h"
#include "libtrain/ops/relu.h"
#include "libtrain/ops/softmax_cross_entropy.h"
#include "libtrain/optim/sgd.h"
#include "tests/golden/golden_case.h"

static struct fixture ops;

static int setup(void **state)
{
    fixture_open(&ops, "ops");
    return kernel_pools_setup(state);
}

static int teardown(void **state)
{
    fixture_close(&ops);
    return kernel_pools_teardown(state);
}

/* The results of an op with weights; initially zeros. */
struct weighted {
    float *weight, *gradient; /* in libtrain's layout */
    float *y, *dx, *dweight, *dbias;
};

static struct weighted weighted_new(const struct golden *golden)
{
    return (struct weighted){.weight = golden_output(golden, "weight"),
                             .gradient = golden_output(golden, "weight"),
                             .y = golden_output(golden, "y"),
                             .dx = golden_output(golden, "dx"),
                             .dweight = golden_output(golden, "weight"),
                             .dbias = golden_output(golden, "bias")};
}

/* Compare with the fixture, and free. */
static void weighted_expect(const struct golden *golden, struct weighted *w)
{
    golden_expect(golden, "y", w->y);
    golden_expect(golden, "dx", w->dx);
    golden_expect(golden, "dweight", w->dweight);
    golden_expect(golden, "dbias", w->dbias);
    free(w->weight);
    free(w->gradient);
}

static void conv2d_case(const struct golden *golden)
{
    const struct conv2d_shape s = {.N = golden_size(golden, 0),
                                   .H = golden_size(golden, 1),
                                   .W = golden_size(golden, 2),
                                   .C = golden_size(golden, 3),
                                   .O = golden_size(golden, 4),
                                   .KH = golden_size(golden, 5),
                                   .KW = golden_size(golden, 6),
                                   .SH = golden_size(golden, 7),
                                   .SW = golden_size(golden, 8),
                                   .PH = golden_size(golden, 9),
                                   .PW = golden_size(golden, 10),
                                   .G = golden_size(golden, 11),
                                   .OH = golden_size(golden, 12),
                                   .OW = golden_size(golden, 13)};
    bool bias = golden_size(golden, 14);
    const struct conv2d_kernels by_shape = {{0}};
    struct compute compute = compute_init(golden->pool, conv2d_workspace(&s, by_shape));
    struct weighted w = weighted_new(golden);
    conv2d_import(&s, golden_input(golden, "weight"), w.weight);
    conv2d_forward(&compute, &s, by_shape, golden_input(golden, "x"), w.weight,
                   bias ? golden_input(golden, "bias") : NULL, w.y);
    conv2d_backward_data(&compute, &s, by_shape, golden_input(golden, "dy"), w.weight, w.dx, false);
    conv2d_backward_weights(&compute, &s, by_shape, golden_input(golden, "x"),
                            golden_input(golden, "dy"), w.gradient);
    conv2d_backward_bias(&compute, &s, golden_input(golden, "dy"), w.dbias);
    conv2d_export(&s, w.gradient, w.dweight);
    weighted_expect(golden, &w);
    compute_done(&compute);
}

static void convolutions_compute_what_pytorch_computes(void **state)
{
    golden_each(state, &ops, "conv2d", conv2d_case);
}

static void linear_case(const struct golden *golden)
{
    struct shape flat = {(uint32_t)golden_size(golden, 1), (uint32_t)golden_size(golden, 2),
                         (uint32_t)golden_size(golden, 3)};
    struct linear_shape s = {
        .N = golden_size(golden, 0), .F = shape_elements(flat), .O = golden_size(golden, 4)};
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    struct weighted w = weighted_new(golden);
    linear_import(s.O, flat, golden_input(golden, "weight"), w.weight);
    linear_forward(&compute, &s, golden_input(golden, "x"), w.weight, golden_input(golden, "bias"),
                   w.y);
    linear_backward_data(&compute, &s, golden_input(golden, "dy"), w.weight, w.dx, false);
    linear_backward_weights(&compute, &s, golden_input(golden, "x"), golden_input(golden, "dy"),
                            w.gradient, w.dbias);
    linear_export(s.O, flat, w.gradient, w.dweight);
    weighted_expect(golden, &w);
    compute_done(&compute);
}

static void linear_layers_compute_what_pytorch_computes(void **state)
{
    golden_each(state, &ops, "linear", linear_case);
}

static void batch_norm_case(const struct golden *golden)
{
    struct batch_norm_shape s = {.M = golden_size(golden, 0) * golden_size(golden, 1) *
                                      golden_size(golden, 2),
                                 .C = golden_size(golden, 3),
                                 .epsilon = 1e-5,
                                 .momentum = 0.1};
    struct compute compute = compute_init(golden->pool, batch_norm_workspace(s.M, s.C));
    const float *x = golden_input(golden, "x");
    const float *weight = golden_input(golden, "weight");
    const float *bias = golden_input(golden, "bias");
    float *y = golden_output(golden, "y");
    float *evaluated = golden_output(golden, "y");
    float *dx = golden_output(golden, "dx");
    float *dweight = golden_output(golden, "weight");
    float *dbias = golden_output(golden, "bias");
    float *mean = copy_floats(golden_input(golden, "start_mean"), s.C);
    float *variance = copy_floats(golden_input(golden, "start_variance"), s.C);
    float *saved = calloc(BATCH_NORM_SAVED * s.C, sizeof(float));
    assert_non_null(saved);
    batch_norm_evaluate(&compute, &s, x, weight, bias, mean, variance, evaluated);
    batch_norm_forward(&compute, &s, x, weight, bias, mean, variance, saved, y);
    batch_norm_backward(&compute, &s, x, weight, saved, golden_input(golden, "dy"), dx, false,
                        dweight, dbias);
    golden_expect(golden, "y", y);
    golden_expect(golden, "evaluated", evaluated);
    golden_expect(golden, "dx", dx);
    golden_expect(golden, "dweight", dweight);
    golden_expect(golden, "dbias", dbias);
    golden_expect(golden, "mean", mean);
    golden_expect(golden, "variance", variance);
    free(saved);
    compute_done(&compute);
}

static void batch_norms_compute_what_pytorch_computes(void **state)
{
    golden_each(state, &ops, "batch_norm", batch_norm_case);
}

static void relu_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    float ceiling = strcmp(golden->op, "relu6") == 0 ? 6.0f : RELU_NO_CEILING;
    size_t count = golden_size(golden, 0) * golden_size(golden, 1) * golden_size(golden, 2) *
                   golden_size(golden, 3);
    float *y = golden_output(golden, "y");
    float *dx = golden_output(golden, "dx");
    relu_forward(&compute, count, ceiling, golden_input(golden, "x"), y);
    relu_backward(&compute, count, ceiling, y, golden_input(golden, "dy"), dx, false);
    golden_expect(golden, "y", y);
    golden_expect(golden, "dx", dx);
    compute_done(&compute);
}

static void rectifiers_compute_what_pytorch_computes(void **state)
{
    golden_each(state, &ops, "relu", relu_case);
    golden_each(state, &ops, "relu6", relu_case);
}

static void add_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    size_t count = golden_size(golden, 0) * golden_size(golden, 1) * golden_size(golden, 2) *
                   golden_size(golden, 3);
    const float *const x[] = {golden_input(golden, "a"), golden_input(golden, "b")};
    float *y = golden_output(golden, "y");
    float *da = golden_output(golden, "da");
    float *db = golden_output(golden, "db");
    add_forward(&compute, count, x, 2, y);
    copy_backward(&compute, count, golden_input(golden, "dy"), da, false);
    copy_backward(&compute, count, golden_input(golden, "dy"), db, true);
    golden_expect(golden, "y", y);
    golden_expect(golden, "da", da);
    golden_expect(golden, "db", db);
    compute_done(&compute);
}

static void concat_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    size_t M = golden_size(golden, 0) * golden_size(golden, 1) * golden_size(golden, 2);
    size_t first = golden_size(golden, 3);
    size_t second = golden_size(golden, 4);
    float *y = golden_output(golden, "y");
    float *da = golden_output(golden, "da");
    float *db = golden_output(golden, "db");
    concat_forward(&compute, M, first, first + second, 0, golden_input(golden, "a"), y);
    concat_forward(&compute, M, second, first + second, first, golden_input(golden, "b"), y);
    concat_backward(&compute, M, first, first + second, 0, golden_input(golden, "dy"), da, false);
    concat_backward(&compute, M, second, first + second, first, golden_input(golden, "dy"), db,
                    true);
    golden_expect(golden, "y", y);
    golden_expect(golden, "da", da);
    golden_expect(golden, "db", db);
    compute_done(&compute);
}

static void joins_compute_what_pytorch_computes(void **state)
{
    golden_each(state, &ops, "add", add_case);
    golden_each(state, &ops, "concat", concat_case);
}

static void select_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    size_t M = golden_size(golden, 0) * golden_size(golden, 1) * golden_size(golden, 2);
    size_t width = golden_size(golden, 3);
    size_t first = golden_size(golden, 4);
    size_t channels = golden_size(golden, 5);
    float *y = golden_output(golden, "y");
    float *dx = golden_output(golden, "dx");
    select_forward(&compute, M, channels, width, first, golden_input(golden, "x"), y);
    select_backward(&compute, M, channels, width, first, golden_input(golden, "dy"), dx, false);
    golden_expect(golden, "y", y);
    golden_expect(golden, "dx", dx);
    compute_done(&compute);
}

static void select_computes_what_pytorch_computes(void **state)
{
    golden_each(state, &ops, "select", select_case);
}

static void pool_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    const struct pool2d_shape s = {.N = golden_size(golden, 0),
                                   .H = golden_size(golden, 1),
                                   .W = golden_size(golden, 2),
                                   .C = golden_size(golden, 3),
                                   .KH = golden_size(golden, 4),
                                   .KW = golden_size(golden, 5),
                                   .SH = golden_size(golden, 6),
                                   .SW = golden_size(golden, 7),
                                   .PH = golden_size(golden, 8),
                                   .PW = golden_size(golden, 9),
                                   .OH = golden_size(golden, 10),
                                   .OW = golden_size(golden, 11)};
    float *y = golden_output(golden, "y");
    float *dx = golden_output(golden, "dx");
    if (strcmp(golden->op, "max_pool") == 0) {
        uint16_t *position = calloc(s.N * s.OH * s.OW * s.C, sizeof(*position));
        assert_non_null(position);
        max_pool_forward(&compute, &s, golden_input(golden, "x"), y, position);
        max_pool_backward(&compute, &s, position, golden_input(golden, "dy"), dx, false);
        free(position);
    } else {
        avg_pool_forward(&compute, &s, golden_input(golden, "x"), y);
        avg_pool_backward(&compute, &s, golden_input(golden, "dy"), dx, false);
    }
    golden_expect(golden, "y", y);
    golden_expect(golden, "dx", dx);
    compute_done(&compute);
}

static void global_avg_pool_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    size_t N = golden_size(golden, 0);
    size_t pixels = golden_size(golden, 1) * golden_size(golden, 2);
    size_t C = golden_size(golden, 3);
    float *y = golden_output(golden, "y");
    float *dx = golden_output(golden, "dx");
    global_avg_pool_forward(&compute, N, pixels, C, golden_input(golden, "x"), y);
    global_avg_pool_backward(&compute, N, pixels, C, golden_input(golden, "dy"), dx, false);
    golden_expect(golden, "y", y);
    golden_expect(golden, "dx", dx);
    compute_done(&compute);
}

static void pools_compute_what_pytorch_computes(void **state)
{
    golden_each(state, &ops, "max_pool", pool_case);
    golden_each(state, &ops, "avg_pool", pool_case);
    golden_each(state, &ops, "global_avg_pool", global_avg_pool_case);
}

static void loss_case(const struct golden *golden)
{
    size_t N = golden_size(golden, 0);
    size_t C = golden_size(golden, 1);
    size_t count;
    struct compute compute = compute_init(golden->pool, softmax_cross_entropy_workspace(N));
    const int32_t *labels =
        fixture_data(golden->fixture, "softmax_cross_entropy.0.labels", DTYPE_I32, &count);
    float *dx = golden_output(golden, "dx");
    float *mean = golden_output(golden, "mean");
    assert_non_null(labels);
    mean[0] = (float)(softmax_cross_entropy(&compute, N, C, golden_input(golden, "x"), labels, 0.0,
                                            1.0 / (double)N, dx) /
                      (double)N);
    golden_expect(golden, "mean", mean);
    golden_expect(golden, "dx", dx);
    compute_done(&compute);
}

static void the_loss_is_the_one_pytorch_computes(void **state)
{
    golden_each(state, &ops, "softmax_cross_entropy", loss_case);
}

static void sgd_case(const struct golden *golden)
{
    char name[64];
    size_t settings_count;
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    size_t steps = golden_size(golden, 0);
    size_t count = golden_size(golden, 1);
    (void)snprintf(name, sizeof(name), "sgd.%zu.settings", golden->number);
    const double *settings = fixture_data(golden->fixture, name, DTYPE_F64, &settings_count);
    assert_non_null(settings);
    const struct optimizer optimizer = {
        .momentum = settings[0], .weight_decay = settings[1], .nesterov = settings[2] > 0.0};
    float *parameter = copy_floats(golden_input(golden, "start"), count);
    float *gradients = copy_floats(golden_input(golden, "gradients"), steps * count);
    float *buffer = optimizer.momentum > 0.0 ? golden_output(golden, "start") : NULL;
    for (size_t step = 0; step < steps; step++) {
        sgd_step(&compute, &optimizer, 0.1, count, parameter, parameter, gradients + step * count,
                 buffer);
    }
    golden_expect(golden, "parameter", parameter);
    free(gradients);
    free(buffer);
    compute_done(&compute);
}

static void the_optimizer_takes_the_steps_pytorch_takes(void **state)
{
    golden_each(state, &ops, "sgd", sgd_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_compute_what_pytorch_computes),
        cmocka_unit_test(linear_layers_compute_what_pytorch_computes),
        cmocka_unit_test(batch_norms_compute_what_pytorch_computes),
        cmocka_unit_test(rectifiers_compute_what_pytorch_computes),
        cmocka_unit_test(joins_compute_what_pytorch_computes),
        cmocka_unit_test(select_computes_what_pytorch_computes),
        cmocka_unit_test(pools_compute_what_pytorch_computes),
        cmocka_unit_test(the_loss_is_the_one_pytorch_computes),
        cmocka_unit_test(the_optimizer_takes_the_steps_pytorch_takes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
