/* The ops of sequences against PyTorch (make_fixtures.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/ops/activation.h"
#include "libtrain/ops/attention.h"
#include "libtrain/ops/embedding.h"
#include "libtrain/ops/layer_norm.h"
#include "libtrain/ops/linear.h"
#include "tests/golden/golden_case.h"

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

static void activation_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    enum activation kind = strcmp(golden->op, "gelu") == 0 ? ACTIVATION_GELU : ACTIVATION_SILU;
    float *y = golden_output(golden, "y");
    float *dx = golden_output(golden, "dx");
    activation_forward(&compute, kind, golden_size(golden, 0), golden_input(golden, "x"), y);
    activation_backward(&compute, kind, golden_size(golden, 0), golden_input(golden, "x"),
                        golden_input(golden, "dy"), dx, false);
    golden_expect(golden, "y", y);
    golden_expect(golden, "dx", dx);
    compute_done(&compute);
}

static void activations_compute_what_pytorch_computes(void **state)
{
    golden_each(state, &sequence, "gelu", activation_case);
    golden_each(state, &sequence, "silu", activation_case);
}

static void layer_norm_case(const struct golden *golden)
{
    const struct layer_norm_shape s = {
        .M = golden_size(golden, 0), .C = golden_size(golden, 1), .epsilon = 1e-5};
    struct compute compute = compute_init(golden->pool, layer_norm_workspace(s.M, s.C));
    float *y = golden_output(golden, "y");
    float *dx = golden_output(golden, "dx");
    float *dweight = golden_output(golden, "dweight");
    float *dbias = golden_output(golden, "dbias");
    float *saved = calloc(2 * s.M, sizeof(float));
    assert_non_null(saved);
    layer_norm_forward(&compute, &s, golden_input(golden, "x"), golden_input(golden, "weight"),
                       golden_input(golden, "bias"), saved, y);
    layer_norm_backward(&compute, &s, golden_input(golden, "x"), golden_input(golden, "weight"),
                        saved, golden_input(golden, "dy"), dx, false, dweight, dbias);
    golden_expect(golden, "y", y);
    golden_expect(golden, "dx", dx);
    golden_expect(golden, "dweight", dweight);
    golden_expect(golden, "dbias", dbias);
    free(saved);
    compute_done(&compute);
}

static void layer_norms_compute_what_pytorch_computes(void **state)
{
    golden_each(state, &sequence, "layer_norm", layer_norm_case);
}

static void linear_case(const struct golden *golden)
{
    const struct linear_shape s = {.N = golden_size(golden, 0) * golden_size(golden, 1),
                                   .F = golden_size(golden, 2),
                                   .O = golden_size(golden, 3)};
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    float *y = golden_output(golden, "y");
    float *dx = golden_output(golden, "dx");
    float *dweight = golden_output(golden, "dweight");
    float *dbias = golden_output(golden, "dbias");
    linear_forward(&compute, &s, golden_input(golden, "x"), golden_input(golden, "weight"),
                   golden_input(golden, "bias"), y);
    linear_backward_data(&compute, &s, golden_input(golden, "dy"), golden_input(golden, "weight"),
                         dx, false);
    linear_backward_weights(&compute, &s, golden_input(golden, "x"), golden_input(golden, "dy"),
                            dweight, dbias);
    golden_expect(golden, "y", y);
    golden_expect(golden, "dx", dx);
    golden_expect(golden, "dweight", dweight);
    golden_expect(golden, "dbias", dbias);
    compute_done(&compute);
}

static void linear_layers_at_each_position_compute_what_pytorch_computes(void **state)
{
    golden_each(state, &sequence, "linear", linear_case);
}

static void embedding_case(const struct golden *golden)
{
    struct compute compute = compute_init(golden->pool, (struct workspace_bytes){0});
    size_t M = golden_size(golden, 0);
    size_t C = golden_size(golden, 1);
    float *y = golden_output(golden, "y");
    float *dweight = golden_output(golden, "dweight");
    embedding_forward(&compute, M, C, golden_input(golden, "token"), golden_input(golden, "weight"),
                      y);
    embedding_backward(&compute, M, C, golden_input(golden, "token"), golden_input(golden, "dy"),
                       dweight);
    golden_expect(golden, "y", y);
    golden_expect(golden, "dweight", dweight);
    compute_done(&compute);
}

static void embeddings_compute_what_pytorch_computes(void **state)
{
    golden_each(state, &sequence, "embedding", embedding_case);
}

static void attention_case(const struct golden *golden)
{
    const struct attention_shape s = {.N = golden_size(golden, 0),
                                      .T = golden_size(golden, 1),
                                      .C = golden_size(golden, 2),
                                      .heads = golden_size(golden, 3),
                                      .causal = golden_size(golden, 4)};
    struct compute compute = compute_init(golden->pool, attention_workspace(&s));
    float *y = golden_output(golden, "y");
    float *dx = golden_output(golden, "dx");
    attention_forward(&compute, &s, golden_input(golden, "x"), y);
    attention_backward(&compute, &s, golden_input(golden, "x"), golden_input(golden, "dy"), dx,
                       false);
    golden_expect(golden, "y", y);
    golden_expect(golden, "dx", dx);
    compute_done(&compute);
}

static void attentions_compute_what_pytorch_computes(void **state)
{
    golden_each(state, &sequence, "attention", attention_case);
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
