/* Every op, forward and backward, against what PyTorch computes: per tensor max|a - b| / max|b| below 1e-4. */
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
#include "tests/golden/fixture.h"
#include "tests/unit/libtrain/kernel_support.h"

#define TOLERANCE 1e-4

/* One case of an op. */
struct golden {
    struct fixture *fixture;
    struct train_pool *pool;
    const char *op;
    size_t number;
};

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

static const float *input(const struct golden *golden, const char *name)
{
    size_t count;
    return fixture_floats(golden->fixture, golden->op, golden->number, name, &count);
}

static size_t size_at(const struct golden *golden, size_t index)
{
    return (size_t)fixture_shape(golden->fixture, golden->op, golden->number)[index];
}

/* Zeros of a tensor's size; heap. */
static float *output(const struct golden *golden, const char *name)
{
    size_t count;
    (void)fixture_floats(golden->fixture, golden->op, golden->number, name, &count);
    float *floats = calloc(count, sizeof(float));
    assert_non_null(floats);
    return floats;
}

/* Compare with the fixture, and free. */
static void expect(const struct golden *golden, const char *name, float *actual)
{
    size_t count;
    const float *expected = fixture_floats(golden->fixture, golden->op, golden->number, name, &count);
    assert_close(actual, expected, count, TOLERANCE);
    free(actual);
}

typedef void (*golden_fn)(const struct golden *golden);

static void each_case(void **state, const char *op, golden_fn check)
{
    const struct kernel_pools *pools = *state;
    size_t number = 0;
    for (; fixture_has(&ops, op, number); number++) {
        check(&(struct golden){.fixture = &ops, .pool = pools->pool[1], .op = op, .number = number});
    }
    assert_true(number > 0);
}

/* What an op with weights gives; zeros at first. */
struct weighted {
    float *weight, *gradient; /* in libtrain's layout */
    float *y, *dx, *dweight, *dbias;
};

static struct weighted weighted_new(const struct golden *golden)
{
    return (struct weighted){.weight = output(golden, "weight"),
                             .gradient = output(golden, "weight"),
                             .y = output(golden, "y"),
                             .dx = output(golden, "dx"),
                             .dweight = output(golden, "weight"),
                             .dbias = output(golden, "bias")};
}

/* Compare with the fixture, and free. */
static void weighted_expect(const struct golden *golden, struct weighted *w)
{
    expect(golden, "y", w->y);
    expect(golden, "dx", w->dx);
    expect(golden, "dweight", w->dweight);
    expect(golden, "dbias", w->dbias);
    free(w->weight);
    free(w->gradient);
}

static void conv2d_case(const struct golden *golden)
{
    const struct conv2d_shape s = {.N = size_at(golden, 0),
                                   .H = size_at(golden, 1),
                                   .W = size_at(golden, 2),
                                   .C = size_at(golden, 3),
                                   .O = size_at(golden, 4),
                                   .KH = size_at(golden, 5),
                                   .KW = size_at(golden, 6),
                                   .SH = size_at(golden, 7),
                                   .SW = size_at(golden, 8),
                                   .PH = size_at(golden, 9),
                                   .PW = size_at(golden, 10),
                                   .G = size_at(golden, 11),
                                   .OH = size_at(golden, 12),
                                   .OW = size_at(golden, 13)};
    bool bias = size_at(golden, 14);
    struct compute compute = compute_init(golden->pool, conv2d_workspace(&s));
    struct weighted w = weighted_new(golden);
    conv2d_import(&s, input(golden, "weight"), w.weight);
    conv2d_forward(&compute, &s, input(golden, "x"), w.weight, bias ? input(golden, "bias") : NULL, w.y);
    conv2d_backward_data(&compute, &s, input(golden, "dy"), w.weight, w.dx, false);
    conv2d_backward_weights(&compute, &s, input(golden, "x"), input(golden, "dy"), w.gradient, w.dbias);
    conv2d_export(&s, w.gradient, w.dweight);
    weighted_expect(golden, &w);
    compute_done(&compute);
}

static void convolutions_compute_what_pytorch_computes(void **state)
{
    each_case(state, "conv2d", conv2d_case);
}

static void linear_case(const struct golden *golden)
{
    struct shape flat = {(uint32_t)size_at(golden, 1), (uint32_t)size_at(golden, 2), (uint32_t)size_at(golden, 3)};
    struct linear_shape s = {.N = size_at(golden, 0), .F = shape_elements(flat), .O = size_at(golden, 4)};
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    struct weighted w = weighted_new(golden);
    linear_import(s.O, flat, input(golden, "weight"), w.weight);
    linear_forward(&compute, &s, input(golden, "x"), w.weight, input(golden, "bias"), w.y);
    linear_backward_data(&compute, &s, input(golden, "dy"), w.weight, w.dx, false);
    linear_backward_weights(&compute, &s, input(golden, "x"), input(golden, "dy"), w.gradient, w.dbias);
    linear_export(s.O, flat, w.gradient, w.dweight);
    weighted_expect(golden, &w);
    compute_done(&compute);
}

static void linear_layers_compute_what_pytorch_computes(void **state)
{
    each_case(state, "linear", linear_case);
}

static void batch_norm_case(const struct golden *golden)
{
    struct batch_norm_shape s = {.M = size_at(golden, 0) * size_at(golden, 1) * size_at(golden, 2),
                                 .C = size_at(golden, 3),
                                 .epsilon = 1e-5,
                                 .momentum = 0.1};
    struct compute compute = compute_init(golden->pool, batch_norm_workspace(s.M, s.C));
    const float *x = input(golden, "x");
    const float *weight = input(golden, "weight");
    const float *bias = input(golden, "bias");
    float *y = output(golden, "y");
    float *evaluated = output(golden, "y");
    float *dx = output(golden, "dx");
    float *dweight = output(golden, "weight");
    float *dbias = output(golden, "bias");
    float *mean = copy_floats(input(golden, "start_mean"), s.C);
    float *variance = copy_floats(input(golden, "start_variance"), s.C);
    float *saved = calloc(BATCH_NORM_SAVED * s.C, sizeof(float));
    assert_non_null(saved);
    batch_norm_evaluate(&compute, &s, x, weight, bias, mean, variance, evaluated);
    batch_norm_forward(&compute, &s, x, weight, bias, mean, variance, saved, y);
    batch_norm_backward(&compute, &s, x, weight, saved, input(golden, "dy"), dx, false, dweight, dbias);
    expect(golden, "y", y);
    expect(golden, "evaluated", evaluated);
    expect(golden, "dx", dx);
    expect(golden, "dweight", dweight);
    expect(golden, "dbias", dbias);
    expect(golden, "mean", mean);
    expect(golden, "variance", variance);
    free(saved);
    compute_done(&compute);
}

static void batch_norms_compute_what_pytorch_computes(void **state)
{
    each_case(state, "batch_norm", batch_norm_case);
}

static void relu_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    float ceiling = strcmp(golden->op, "relu6") == 0 ? 6.0f : RELU_NO_CEILING;
    size_t count = size_at(golden, 0) * size_at(golden, 1) * size_at(golden, 2) * size_at(golden, 3);
    float *y = output(golden, "y");
    float *dx = output(golden, "dx");
    relu_forward(&compute, count, ceiling, input(golden, "x"), y);
    relu_backward(&compute, count, ceiling, y, input(golden, "dy"), dx, false);
    expect(golden, "y", y);
    expect(golden, "dx", dx);
    compute_done(&compute);
}

static void rectifiers_compute_what_pytorch_computes(void **state)
{
    each_case(state, "relu", relu_case);
    each_case(state, "relu6", relu_case);
}

static void add_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    size_t count = size_at(golden, 0) * size_at(golden, 1) * size_at(golden, 2) * size_at(golden, 3);
    const float *const x[] = {input(golden, "a"), input(golden, "b")};
    float *y = output(golden, "y");
    float *da = output(golden, "da");
    float *db = output(golden, "db");
    add_forward(&compute, count, x, 2, y);
    copy_backward(&compute, count, input(golden, "dy"), da, false);
    copy_backward(&compute, count, input(golden, "dy"), db, true);
    expect(golden, "y", y);
    expect(golden, "da", da);
    expect(golden, "db", db);
    compute_done(&compute);
}

static void concat_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    size_t M = size_at(golden, 0) * size_at(golden, 1) * size_at(golden, 2);
    size_t first = size_at(golden, 3);
    size_t second = size_at(golden, 4);
    float *y = output(golden, "y");
    float *da = output(golden, "da");
    float *db = output(golden, "db");
    concat_forward(&compute, M, first, first + second, 0, input(golden, "a"), y);
    concat_forward(&compute, M, second, first + second, first, input(golden, "b"), y);
    concat_backward(&compute, M, first, first + second, 0, input(golden, "dy"), da, false);
    concat_backward(&compute, M, second, first + second, first, input(golden, "dy"), db, true);
    expect(golden, "y", y);
    expect(golden, "da", da);
    expect(golden, "db", db);
    compute_done(&compute);
}

static void joins_compute_what_pytorch_computes(void **state)
{
    each_case(state, "add", add_case);
    each_case(state, "concat", concat_case);
}

static void pool_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    const struct pool2d_shape s = {.N = size_at(golden, 0),
                                   .H = size_at(golden, 1),
                                   .W = size_at(golden, 2),
                                   .C = size_at(golden, 3),
                                   .KH = size_at(golden, 4),
                                   .KW = size_at(golden, 5),
                                   .SH = size_at(golden, 6),
                                   .SW = size_at(golden, 7),
                                   .PH = size_at(golden, 8),
                                   .PW = size_at(golden, 9),
                                   .OH = size_at(golden, 10),
                                   .OW = size_at(golden, 11)};
    float *y = output(golden, "y");
    float *dx = output(golden, "dx");
    if (strcmp(golden->op, "max_pool") == 0) {
        uint16_t *position = calloc(s.N * s.OH * s.OW * s.C, sizeof(*position));
        assert_non_null(position);
        max_pool_forward(&compute, &s, input(golden, "x"), y, position);
        max_pool_backward(&compute, &s, position, input(golden, "dy"), dx, false);
        free(position);
    } else {
        avg_pool_forward(&compute, &s, input(golden, "x"), y);
        avg_pool_backward(&compute, &s, input(golden, "dy"), dx, false);
    }
    expect(golden, "y", y);
    expect(golden, "dx", dx);
    compute_done(&compute);
}

static void global_avg_pool_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    size_t N = size_at(golden, 0);
    size_t pixels = size_at(golden, 1) * size_at(golden, 2);
    size_t C = size_at(golden, 3);
    float *y = output(golden, "y");
    float *dx = output(golden, "dx");
    global_avg_pool_forward(&compute, N, pixels, C, input(golden, "x"), y);
    global_avg_pool_backward(&compute, N, pixels, C, input(golden, "dy"), dx, false);
    expect(golden, "y", y);
    expect(golden, "dx", dx);
    compute_done(&compute);
}

static void pools_compute_what_pytorch_computes(void **state)
{
    each_case(state, "max_pool", pool_case);
    each_case(state, "avg_pool", pool_case);
    each_case(state, "global_avg_pool", global_avg_pool_case);
}

static void loss_case(const struct golden *golden)
{
    size_t N = size_at(golden, 0);
    size_t C = size_at(golden, 1);
    size_t count;
    struct compute compute = compute_init(golden->pool, softmax_cross_entropy_workspace(N));
    const int32_t *labels = fixture_data(golden->fixture, "softmax_cross_entropy.0.labels", DTYPE_I32, &count);
    float *dx = output(golden, "dx");
    float *mean = output(golden, "mean");
    assert_non_null(labels);
    mean[0] =
        (float)(softmax_cross_entropy(&compute, N, C, input(golden, "x"), labels, 1.0 / (double)N, dx) / (double)N);
    expect(golden, "mean", mean);
    expect(golden, "dx", dx);
    compute_done(&compute);
}

static void the_loss_is_the_one_pytorch_computes(void **state)
{
    each_case(state, "softmax_cross_entropy", loss_case);
}

static void sgd_case(const struct golden *golden)
{
    char name[64];
    size_t settings_count;
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    size_t steps = size_at(golden, 0);
    size_t count = size_at(golden, 1);
    (void)snprintf(name, sizeof(name), "sgd.%zu.settings", golden->number);
    const double *settings = fixture_data(golden->fixture, name, DTYPE_F64, &settings_count);
    assert_non_null(settings);
    const struct optimizer optimizer = {
        .momentum = settings[0], .weight_decay = settings[1], .nesterov = settings[2] > 0.0};
    float *parameter = copy_floats(input(golden, "start"), count);
    float *gradients = copy_floats(input(golden, "gradients"), steps * count);
    float *buffer = optimizer.momentum > 0.0 ? output(golden, "start") : NULL;
    for (size_t step = 0; step < steps; step++) {
        sgd_step(&compute, &optimizer, 0.1, count, parameter, gradients + step * count, buffer);
    }
    expect(golden, "parameter", parameter);
    free(gradients);
    free(buffer);
    compute_done(&compute);
}

static void the_optimizer_takes_the_steps_pytorch_takes(void **state)
{
    each_case(state, "sgd", sgd_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_compute_what_pytorch_computes),
        cmocka_unit_test(linear_layers_compute_what_pytorch_computes),
        cmocka_unit_test(batch_norms_compute_what_pytorch_computes),
        cmocka_unit_test(rectifiers_compute_what_pytorch_computes),
        cmocka_unit_test(joins_compute_what_pytorch_computes),
        cmocka_unit_test(pools_compute_what_pytorch_computes),
        cmocka_unit_test(the_loss_is_the_one_pytorch_computes),
        cmocka_unit_test(the_optimizer_takes_the_steps_pytorch_takes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
