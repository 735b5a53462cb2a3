/* Convolutions by oneDNN's kernels against the oracle, with the same bits at any number of threads:
 * random shapes, and those of the zoo. Without the library in the build: skipped. */
#include <stdlib.h>
#include <string.h>

#include "libtrain/backend/onednn.h"
#include "libtrain/kernels/op_workspace.h"
#include "libtrain/ops/conv2d.h"
#include "libtrain/ops/onednn_conv2d.h"
#include "libtrain/train.h"
#include "tests/unit/libtrain_description/model_support.h"
#include "tests/unit/libtrain_ops/kernel_support.h"
#include "tests/unit/libtrain_ops/naive.h"

#define TOLERANCE 3e-6
#define WINOGRAD_TOLERANCE 1e-4
#define TERMS_MAX 1000000.0 /* of an oracle's pass: larger shapes of the zoo are made smaller */
#define SHAPES_MAX 128

#define SKIP_WITHOUT_ONEDNN()                                                                      \
    do {                                                                                           \
        if (!onednn_built()) {                                                                     \
            test_skip("built without oneDNN (-DPACELINE_ONEDNN=ON)");                              \
        }                                                                                          \
    } while (0)

/* All tensors of one convolution; outputs start with random numbers. */
struct onednn_case {
    struct conv2d_shape shape;
    bool bias, accumulate;
    size_t inputs, weights, outputs;
    float *x, *weight, *imported, *bias_values, *dy, *start_dx, *start_dweight;
};

/* The results of the kernels. */
struct onednn_result {
    float *y, *part, *dx, *dweight;
};

static struct onednn_case case_new(struct draws *draws, struct conv2d_shape shape)
{
    struct onednn_case c = {.shape = shape};
    c.bias = draw_size(draws, 0, 1);
    c.accumulate = draw_size(draws, 0, 1);
    c.inputs = shape.N * shape.H * shape.W * shape.C;
    c.weights = shape.O * conv2d_row_floats(&shape);
    c.outputs = shape.N * shape.OH * shape.OW * shape.O;
    c.x = draw_floats(draws, c.inputs);
    c.weight = draw_floats(draws, c.weights);
    c.bias_values = draw_floats(draws, shape.O);
    c.dy = draw_floats(draws, c.outputs);
    c.start_dx = draw_floats(draws, c.inputs);
    c.start_dweight = draw_floats(draws, c.weights);
    c.imported = copy_floats(c.weight, c.weights);
    conv2d_import(&c.shape, c.weight, c.imported);
    return c;
}

static void case_done(struct onednn_case *c)
{
    float *all[] = {c->x,  c->weight,   c->imported,     c->bias_values,
                    c->dy, c->start_dx, c->start_dweight};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

/* Samples of an evaluation that does not fill its last block. */
static size_t part_of(const struct onednn_case *c)
{
    return c->shape.N > 1 ? c->shape.N - 1 : 1;
}

/* NaNs: nothing that a kernel left in the scratch is there for the next one. */
static void poison(const struct compute *compute, struct workspace_bytes bytes)
{
    if (bytes.shared > 0) {
        memset(compute->shared, 0xff, (size_t)bytes.shared);
    }
    memset(compute->worker, 0xff, (size_t)bytes.worker * pool_threads(compute->pool));
}

/* False where the library has no such kernel. The scratch is full of NaNs before each pass. */
static bool run(const struct onednn_case *c, enum conv2d_kernel kernel, struct train_pool *pool,
                struct onednn_result *out)
{
    struct onednn *library = NULL;
    struct onednn_conv2d *conv2d = NULL;
    struct err err = {0};
    const struct conv2d_kernels kernels = {{(uint8_t)kernel, (uint8_t)kernel, (uint8_t)kernel}};
    assert_ok(onednn_new(pool_threads(pool), &library, &err), &err);
    if (onednn_conv2d_new(library, &c->shape, kernels, c->bias, &conv2d, &err) != 0) {
        assert_int_equal(kernel, CONV2D_ONEDNN_WINOGRAD);
        onednn_free(&library);
        return false;
    }
    struct workspace_bytes bytes = onednn_conv2d_workspace(conv2d);
    struct compute compute = compute_init(pool, bytes);
    unsigned char *packed = aligned_alloc(WORKSPACE_ALIGNMENT, onednn_conv2d_packed_bytes(conv2d));
    size_t part = part_of(c), y_floats = c->outputs / c->shape.N;
    assert_non_null(packed);
    assert_ok(onednn_conv2d_bind(conv2d, &compute, packed, &err), &err);
    *out = (struct onednn_result){.y = copy_floats(c->dy, c->outputs),
                                  .part = copy_floats(c->dy, part * y_floats),
                                  .dx = copy_floats(c->start_dx, c->inputs),
                                  .dweight = copy_floats(c->start_dweight, c->weights)};
    float *bias = c->bias ? c->bias_values : NULL;
    conv2d_import(&c->shape, c->start_dweight, out->dweight);
    float *other = copy_floats(c->dy, c->weights < c->outputs ? c->weights : c->outputs);
    poison(&compute, bytes);
    if (c->weights <= c->outputs) { /* weights of an earlier version */
        onednn_conv2d_forward(conv2d, &compute, 1, c->shape.N, c->x, other, bias, out->y);
    }
    onednn_conv2d_forward(conv2d, &compute, 2, c->shape.N, c->x, c->imported, bias, out->y);
    onednn_conv2d_forward(conv2d, &compute, 2, part, c->x, other, bias,
                          out->part); /* packed before */
    poison(&compute, bytes);
    onednn_conv2d_backward_data(conv2d, &compute, 2, c->dy, c->imported, out->dx, c->accumulate);
    poison(&compute, bytes);
    onednn_conv2d_backward_weights(conv2d, &compute, c->x, c->dy, out->dweight);
    float *exported = copy_floats(out->dweight, c->weights);
    conv2d_export(&c->shape, out->dweight, exported);
    free(out->dweight);
    out->dweight = exported;
    free(other);
    onednn_conv2d_free(&conv2d);
    onednn_free(&library);
    compute_done(&compute);
    free(packed);
    return true;
}

static void result_done(struct onednn_result *r)
{
    free(r->y);
    free(r->part);
    free(r->dx);
    free(r->dweight);
}

static void check_against_naive(const struct onednn_case *c, const struct onednn_result *r,
                                double tolerance)
{
    double *x = widen(c->x, c->inputs);
    double *weight = widen(c->weight, c->weights);
    double *bias = widen(c->bias_values, c->shape.O);
    double *dy = widen(c->dy, c->outputs);
    double *y = zeros(c->outputs);
    double *dx = zeros(c->inputs);
    double *dweight = zeros(c->weights);
    naive_conv2d_forward(&c->shape, x, weight, c->bias ? bias : NULL, y);
    naive_conv2d_backward(&c->shape, x, weight, dy, dx, dweight, NULL);
    assert_close_to_oracle(r->y, NULL, y, c->outputs, tolerance);
    assert_close_to_oracle(r->part, NULL, y, part_of(c) * c->outputs / c->shape.N, tolerance);
    assert_close_to_oracle(r->dx, c->accumulate ? c->start_dx : NULL, dx, c->inputs, tolerance);
    assert_close_to_oracle(r->dweight, c->start_dweight, dweight, c->weights, tolerance);
    double *all[] = {x, weight, bias, dy, y, dx, dweight};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

/* How many of the library's kernels did it. */
static size_t check_shape(const struct kernel_pools *pools, struct draws *draws,
                          struct conv2d_shape shape)
{
    struct onednn_case c = case_new(draws, shape);
    size_t done = 0;
    for (enum conv2d_kernel kernel = CONV2D_ONEDNN_DIRECT; conv2d_kernel_names[kernel]; kernel++) {
        struct onednn_result first, other;
        if (!conv2d_kernel_can(kernel, &c.shape, CONV2D_FORWARD) ||
            !run(&c, kernel, pools->pool[0], &first)) {
            continue;
        }
        check_against_naive(&c, &first,
                            kernel == CONV2D_ONEDNN_WINOGRAD ? WINOGRAD_TOLERANCE : TOLERANCE);
        for (size_t i = 1; i < KERNEL_POOLS; i++) {
            assert_true(run(&c, kernel, pools->pool[i], &other));
            assert_memory_equal(first.y, other.y, c.outputs * sizeof(float));
            assert_memory_equal(first.part, other.part,
                                part_of(&c) * c.outputs / c.shape.N * sizeof(float));
            assert_memory_equal(first.dx, other.dx, c.inputs * sizeof(float));
            assert_memory_equal(first.dweight, other.dweight, c.weights * sizeof(float));
            result_done(&other);
        }
        result_done(&first);
        done++;
    }
    case_done(&c);
    return done;
}

static struct conv2d_shape draw_shape(struct draws *draws, size_t G, size_t channels,
                                      size_t filters)
{
    struct conv2d_shape shape = {
        .N = draw_size(draws, 1, 9), .C = G * channels, .O = G * filters, .G = G};
    shape.KH = draw_size(draws, 1, 5);
    shape.KW = draw_size(draws, 1, 5);
    shape.PH = draw_size(draws, 0, shape.KH - 1);
    shape.PW = draw_size(draws, 0, shape.KW - 1);
    shape.SH = draw_size(draws, 1, 3);
    shape.SW = draw_size(draws, 1, 3);
    shape.H = draw_size(draws, 1, 9) + shape.KH - 1;
    shape.W = draw_size(draws, 1, 9) + shape.KW - 1;
    shape.OH = (shape.H + 2 * shape.PH - shape.KH) / shape.SH + 1;
    shape.OW = (shape.W + 2 * shape.PW - shape.KW) / shape.SW + 1;
    return shape;
}

static void convolutions_of_any_shape_match_the_oracle_at_any_thread_count(void **state)
{
    SKIP_WITHOUT_ONEDNN();
    struct draws draws = draws_new(1);
    for (int i = 0; i < 25; i++) {
        assert_true(check_shape(*state, &draws,
                                draw_shape(&draws, 1, draw_size(&draws, 1, 37),
                                           draw_size(&draws, 1, 37))) >= 2);
    }
    for (int i = 0; i < 12; i++) {
        size_t G = draw_size(&draws, 2, 4);
        struct conv2d_shape shape =
            draw_shape(&draws, G, draw_size(&draws, 1, 5), draw_size(&draws, 2, 5));
        assert_true(check_shape(*state, &draws, shape) >= 2);
    }
    for (int i = 0; i < 12; i++) {
        assert_true(
            check_shape(*state, &draws, draw_shape(&draws, draw_size(&draws, 2, 40), 1, 1)) >= 2);
    }
}

static void winograd_convolutions_match_the_oracle_at_any_thread_count(void **state)
{
    SKIP_WITHOUT_ONEDNN();
    static const struct conv2d_shape shapes[] = {
        {1, 4, 4, 16, 16, 3, 3, 1, 1, 1, 1, 1, 4, 4},
        {3, 7, 9, 16, 48, 3, 3, 1, 1, 1, 1, 1, 7, 9},
        {4, 14, 13, 48, 16, 3, 3, 1, 1, 1, 1, 1, 14, 13},
        {2, 16, 16, 64, 64, 3, 3, 1, 1, 1, 1, 1, 16, 16},
        {6, 4, 4, 144, 160, 3, 3, 1, 1, 1, 1, 1, 4, 4},
    };
    struct draws draws = draws_new(2);
    size_t done = 0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        done += check_shape(*state, &draws, shapes[i]) == 3;
    }
    print_message("%zu by Winograd\n", done); /* none without AVX-512 */
}

/* ---- the zoo ---- */

static bool is_known(const struct conv2d_shape *known, size_t count,
                     const struct conv2d_shape *shape)
{
    for (size_t i = 0; i < count; i++) {
        if (memcmp(&known[i], shape, sizeof(*shape)) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_too_large(const struct conv2d_shape *s)
{
    return (double)(s->N * s->OH * s->OW * s->O) * (double)conv2d_row_floats(s) > TERMS_MAX;
}

/* A convolution of the zoo, on fewer pixels where the oracle would take too long, and then with
 * fewer channels (whole nets are compared in tests/golden). */
static struct conv2d_shape zoo_shape(const struct op *op)
{
    struct conv2d_shape s = op_conv2d_shape(op, 2);
    while (is_too_large(&s)) {
        if (s.H / 2 > s.KH && s.W / 2 > s.KW) {
            s.H /= 2;
            s.W /= 2;
        } else {
            s.G = s.G > 1 ? s.G / 2 : 1;
            s.C /= 2;
            s.O /= 2;
        }
        s.OH = (s.H + 2 * s.PH - s.KH) / s.SH + 1;
        s.OW = (s.W + 2 * s.PW - s.KW) / s.SW + 1;
    }
    return s;
}

static void convolutions_of_the_zoo_match_the_oracle_at_any_thread_count(void **state)
{
    SKIP_WITHOUT_ONEDNN();
    static const char *const names[] = {"lenet5",   "alexnet-cifar", "vgg11-bn",
                                        "resnet18", "mobilenetv2",   "dscnn-kws"};
    static struct conv2d_shape known[SHAPES_MAX];
    struct draws draws = draws_new(3);
    size_t count = 0;
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        struct model *model = usual_model(names[n]);
        for (size_t u = 0; u < model->unit_count; u++) {
            for (size_t k = 0; k < model->unit[u].op_count; k++) {
                const struct op *op = &model->unit[u].op[k];
                struct conv2d_shape shape =
                    op->type == OP_CONV2D ? zoo_shape(op) : (struct conv2d_shape){0};
                if (op->type == OP_CONV2D && !is_known(known, count, &shape)) {
                    assert_true(count < SHAPES_MAX);
                    known[count++] = shape;
                    assert_true(check_shape(*state, &draws, shape) >= 2);
                }
            }
        }
        model_free(&model);
    }
    assert_true(count > 30);
}

static void the_numeric_class_names_the_library(void **state)
{
    (void)state;
    char text[TRAIN_NUMERIC_CLASS_MAX];
    train_numeric_class(text);
    assert_true((strstr(text, "/onednn-") != NULL) == onednn_built());
    assert_int_equal(conv2d_backend_of(text), train_backend());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_any_shape_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(winograd_convolutions_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(convolutions_of_the_zoo_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(the_numeric_class_names_the_library),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
