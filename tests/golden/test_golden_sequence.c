/* The ops of sequences against what PyTorch computed (make_fixtures.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/ops/activation.h"
#include "libtrain/ops/attention.h"
#include "libtrain/ops/embedding.h"
#include "libtrain/ops/layer_norm.h"
#include "libtrain/ops/linear.h"
#include "tests/golden/fixture.h"
#include "tests/unit/libtrain/kernel_support.h"

#define TOLERANCE 1e-4

/* One case of an op. */
struct golden {
    struct train_pool *pool;
    const char *op;
    size_t number;
};

static struct fixture sequence;

static int setup(void **state)
{
    fixture_open(&sequence, "sequence");
    return kernel_pools_setup(state);
}

static int teardown(void **state)
{
    fixture_close(&sequence);
    return kernel_pools_teardown(state);
}

static const float *input(const struct golden *golden, const char *name)
{
    size_t count;
    return fixture_floats(&sequence, golden->op, golden->number, name, &count);
}

static size_t size_at(const struct golden *golden, size_t index)
{
    return (size_t)fixture_shape(&sequence, golden->op, golden->number)[index];
}

/* Zeros of a tensor's size; heap. */
static float *output(const struct golden *golden, const char *name)
{
    size_t count;
    (void)fixture_floats(&sequence, golden->op, golden->number, name, &count);
    float *floats = calloc(count, sizeof(float));
    assert_non_null(floats);
    return floats;
}

/* Compare with the fixture, and free. */
static void expect(const struct golden *golden, const char *name, float *actual)
{
    size_t count;
    const float *expected = fixture_floats(&sequence, golden->op, golden->number, name, &count);
    assert_close(actual, expected, count, TOLERANCE);
    free(actual);
}

typedef void (*golden_fn)(const struct golden *golden);

static void each_case(void **state, const char *op, golden_fn check)
{
    const struct kernel_pools *pools = *state;
    size_t number = 0;
    for (; fixture_has(&sequence, op, number); number++) {
        check(&(struct golden){.pool = pools->pool[1], .op = op, .number = number});
    }
    assert_true(number > 0);
}

static void activation_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    enum activation kind = strcmp(golden->op, "gelu") == 0 ? ACTIVATION_GELU : ACTIVATION_SILU;
    float *y = output(golden, "y");
    float *dx = output(golden, "dx");
    activation_forward(&compute, kind, size_at(golden, 0), input(golden, "x"), y);
    activation_backward(&compute, kind, size_at(golden, 0), input(golden, "x"), input(golden, "dy"), dx, false);
    expect(golden, "y", y);
    expect(golden, "dx", dx);
    compute_done(&compute);
}

static void activations_compute_what_pytorch_computes(void **state)
{
    each_case(state, "gelu", activation_case);
    each_case(state, "silu", activation_case);
}

static void layer_norm_case(const struct golden *golden)
{
    const struct layer_norm_shape s = {.M = size_at(golden, 0), .C = size_at(golden, 1), .epsilon = 1e-5};
    struct compute compute = compute_init(golden->pool, layer_norm_workspace(s.M, s.C));
    float *y = output(golden, "y");
    float *dx = output(golden, "dx");
    float *dweight = output(golden, "dweight");
    float *dbias = output(golden, "dbias");
    float *saved = calloc(2 * s.M, sizeof(float));
    assert_non_null(saved);
    layer_norm_forward(&compute, &s, input(golden, "x"), input(golden, "weight"), input(golden, "bias"), saved, y);
    layer_norm_backward(&compute, &s, input(golden, "x"), input(golden, "weight"), saved, input(golden, "dy"), dx,
                        false, dweight, dbias);
    expect(golden, "y", y);
    expect(golden, "dx", dx);
    expect(golden, "dweight", dweight);
    expect(golden, "dbias", dbias);
    free(saved);
    compute_done(&compute);
}

static void layer_norms_compute_what_pytorch_computes(void **state)
{
    each_case(state, "layer_norm", layer_norm_case);
}

static void linear_case(const struct golden *golden)
{
    const struct linear_shape s = {
        .N = size_at(golden, 0) * size_at(golden, 1), .F = size_at(golden, 2), .O = size_at(golden, 3)};
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    float *y = output(golden, "y");
    float *dx = output(golden, "dx");
    float *dweight = output(golden, "dweight");
    float *dbias = output(golden, "dbias");
    linear_forward(&compute, &s, input(golden, "x"), input(golden, "weight"), input(golden, "bias"), y);
    linear_backward_data(&compute, &s, input(golden, "dy"), input(golden, "weight"), dx, false);
    linear_backward_weights(&compute, &s, input(golden, "x"), input(golden, "dy"), dweight, dbias);
    expect(golden, "y", y);
    expect(golden, "dx", dx);
    expect(golden, "dweight", dweight);
    expect(golden, "dbias", dbias);
    compute_done(&compute);
}

static void linear_layers_at_each_position_compute_what_pytorch_computes(void **state)
{
    each_case(state, "linear", linear_case);
}

static void embedding_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    size_t M = size_at(golden, 0);
    size_t C = size_at(golden, 1);
    float *y = output(golden, "y");
    float *dweight = output(golden, "dweight");
    embedding_forward(&compute, M, C, input(golden, "token"), input(golden, "weight"), y);
    embedding_backward(&compute, M, C, input(golden, "token"), input(golden, "dy"), dweight);
    expect(golden, "y", y);
    expect(golden, "dweight", dweight);
    compute_done(&compute);
}

static void embeddings_compute_what_pytorch_computes(void **state)
{
    each_case(state, "embedding", embedding_case);
}

static void attention_case(const struct golden *golden)
{
    const struct attention_shape s = {.N = size_at(golden, 0),
                                      .T = size_at(golden, 1),
                                      .C = size_at(golden, 2),
                                      .heads = size_at(golden, 3),
                                      .causal = size_at(golden, 4)};
    struct compute compute = compute_init(golden->pool, attention_workspace(&s));
    float *y = output(golden, "y");
    float *dx = output(golden, "dx");
    attention_forward(&compute, &s, input(golden, "x"), y);
    attention_backward(&compute, &s, input(golden, "x"), input(golden, "dy"), dx, false);
    expect(golden, "y", y);
    expect(golden, "dx", dx);
    compute_done(&compute);
}

static void attentions_compute_what_pytorch_computes(void **state)
{
    each_case(state, "attention", attention_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_compute_what_pytorch_computes),
        cmocka_unit_test(layer_norms_compute_what_pytorch_computes),
        cmocka_unit_test(linear_layers_at_each_position_compute_what_pytorch_computes),
        cmocka_unit_test(embeddings_compute_what_pytorch_computes),
        cmocka_unit_test(attentions_compute_what_pytorch_computes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
