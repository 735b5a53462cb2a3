/* The oracles themselves: their gradients against finite differences of their forward passes, in
 * double. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/libtrain_ops/kernel_support.h"
#include "tests/unit/libtrain_ops/naive.h"

#define STEP 1e-5
#define TOLERANCE 1e-7

/* A function of one array: the sum of its outputs, each times a fixed factor. */
typedef double (*objective_fn)(void *arg);

static double *draw_doubles(struct draws *draws, size_t count)
{
    float *floats = draw_floats(draws, count);
    double *doubles = widen(floats, count);
    free(floats);
    return doubles;
}

static double weighted(const double *y, const double *dy, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += y[i] * dy[i];
    }
    return sum;
}

/* Fail unless `gradient` is that of the objective at `x`, by central differences. */
static void check_gradient(objective_fn objective, void *arg, double *x, const double *gradient,
                           size_t count)
{
    double *numeric = zeros(count);
    for (size_t i = 0; i < count; i++) {
        double kept = x[i];
        x[i] = kept + STEP;
        double above = objective(arg);
        x[i] = kept - STEP;
        double below = objective(arg);
        x[i] = kept;
        numeric[i] = (above - below) / (2.0 * STEP);
    }
    assert_close(numeric, gradient, count, TOLERANCE);
    free(numeric);
}

struct conv2d_problem {
    struct conv2d_shape shape;
    double *x, *weight, *bias, *y, *dy;
};

static double conv2d_objective(void *arg)
{
    struct conv2d_problem *p = arg;
    naive_conv2d_forward(&p->shape, p->x, p->weight, p->bias, p->y);
    return weighted(p->y, p->dy, p->shape.N * p->shape.OH * p->shape.OW * p->shape.O);
}

static void check_conv2d(struct draws *draws, struct conv2d_shape s)
{
    size_t inputs = s.N * s.H * s.W * s.C;
    size_t weights = s.O * s.KH * s.KW * s.C / s.G;
    size_t outputs = s.N * s.OH * s.OW * s.O;
    struct conv2d_problem p = {.shape = s,
                               .x = draw_doubles(draws, inputs),
                               .weight = draw_doubles(draws, weights),
                               .bias = draw_doubles(draws, s.O),
                               .y = zeros(outputs),
                               .dy = draw_doubles(draws, outputs)};
    double *dx = zeros(inputs);
    double *dweight = zeros(weights);
    double *dbias = zeros(s.O);
    naive_conv2d_backward(&s, p.x, p.weight, p.dy, dx, dweight, dbias);
    check_gradient(conv2d_objective, &p, p.x, dx, inputs);
    check_gradient(conv2d_objective, &p, p.weight, dweight, weights);
    check_gradient(conv2d_objective, &p, p.bias, dbias, s.O);
    double *all[] = {p.x, p.weight, p.bias, p.y, p.dy, dx, dweight, dbias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void the_convolutions_oracle_agrees_with_finite_differences(void **state)
{
    (void)state;
    struct draws draws = draws_new(81);
    check_conv2d(&draws, (struct conv2d_shape){2, 5, 4, 3, 2, 3, 3, 1, 1, 1, 1, 1, 5, 4});
    check_conv2d(&draws, (struct conv2d_shape){1, 6, 5, 4, 6, 3, 3, 2, 2, 0, 0, 2, 2, 2});
    check_conv2d(&draws, (struct conv2d_shape){2, 5, 5, 3, 3, 3, 3, 2, 2, 1, 1, 3, 3, 3});
    check_conv2d(&draws, (struct conv2d_shape){1, 7, 5, 2, 4, 4, 2, 3, 1, 2, 0, 1, 3, 4});
    check_conv2d(&draws, (struct conv2d_shape){2, 4, 6, 3, 3, 1, 3, 1, 2, 0, 1, 3, 4, 3});
}

struct linear_problem {
    struct linear_shape shape;
    struct shape flat;
    double *x, *weight, *bias, *y, *dy;
};

static double linear_objective(void *arg)
{
    struct linear_problem *p = arg;
    naive_linear_forward(&p->shape, p->flat, p->x, p->weight, p->bias, p->y);
    return weighted(p->y, p->dy, p->shape.N * p->shape.O);
}

static void the_linear_oracle_agrees_with_finite_differences(void **state)
{
    (void)state;
    struct draws draws = draws_new(82);
    struct linear_problem p = {.shape = {3, 12, 4},
                               .flat = {2, 3, 2},
                               .x = draw_doubles(&draws, 36),
                               .weight = draw_doubles(&draws, 48),
                               .bias = draw_doubles(&draws, 4),
                               .y = zeros(12),
                               .dy = draw_doubles(&draws, 12)};
    double *dx = zeros(36);
    double *dweight = zeros(48);
    double *dbias = zeros(4);
    naive_linear_backward(&p.shape, p.flat, p.x, p.weight, p.dy, dx, dweight, dbias);
    check_gradient(linear_objective, &p, p.x, dx, 36);
    check_gradient(linear_objective, &p, p.weight, dweight, 48);
    check_gradient(linear_objective, &p, p.bias, dbias, 4);
    double *all[] = {p.x, p.weight, p.bias, p.y, p.dy, dx, dweight, dbias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

struct batch_norm_problem {
    struct batch_norm_shape shape;
    double *x, *weight, *bias, *mean, *variance, *y, *dy;
};

static double batch_norm_objective(void *arg)
{
    struct batch_norm_problem *p = arg;
    naive_batch_norm_forward(&p->shape, p->x, p->weight, p->bias, p->mean, p->variance, p->y);
    return weighted(p->y, p->dy, p->shape.M * p->shape.C);
}

static void the_batch_norm_oracle_agrees_with_finite_differences(void **state)
{
    (void)state;
    struct draws draws = draws_new(83);
    struct batch_norm_problem p = {.shape = {.M = 11, .C = 3, .epsilon = 1e-5, .momentum = 0.1},
                                   .x = draw_doubles(&draws, 33),
                                   .weight = draw_doubles(&draws, 3),
                                   .bias = draw_doubles(&draws, 3),
                                   .mean = zeros(3),
                                   .variance = zeros(3),
                                   .y = zeros(33),
                                   .dy = draw_doubles(&draws, 33)};
    double *dx = zeros(33);
    double *dweight = zeros(3);
    double *dbias = zeros(3);
    naive_batch_norm_backward(&p.shape, p.x, p.weight, p.dy, dx, dweight, dbias);
    check_gradient(batch_norm_objective, &p, p.x, dx, 33);
    check_gradient(batch_norm_objective, &p, p.weight, dweight, 3);
    check_gradient(batch_norm_objective, &p, p.bias, dbias, 3);
    double *all[] = {p.x, p.weight, p.bias, p.mean, p.variance, p.y, p.dy, dx, dweight, dbias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

struct pool2d_problem {
    struct pool2d_shape shape;
    void (*forward)(const struct pool2d_shape *s, const double *x, double *y);
    double *x, *y, *dy;
};

static double pool2d_objective(void *arg)
{
    struct pool2d_problem *p = arg;
    p->forward(&p->shape, p->x, p->y);
    return weighted(p->y, p->dy, p->shape.N * p->shape.OH * p->shape.OW * p->shape.C);
}

static void check_pools(struct draws *draws, struct pool2d_shape s)
{
    size_t inputs = s.N * s.H * s.W * s.C;
    size_t outputs = s.N * s.OH * s.OW * s.C;
    struct pool2d_problem p = {.shape = s,
                               .x = draw_doubles(draws, inputs),
                               .y = zeros(outputs),
                               .dy = draw_doubles(draws, outputs)};
    double *dx = zeros(inputs);
    naive_max_pool_backward(&s, p.x, p.dy, dx);
    p.forward = naive_max_pool_forward;
    check_gradient(pool2d_objective, &p, p.x, dx, inputs);
    memset(dx, 0, inputs * sizeof(double));
    naive_avg_pool_backward(&s, p.dy, dx);
    p.forward = naive_avg_pool_forward;
    check_gradient(pool2d_objective, &p, p.x, dx, inputs);
    free(p.x);
    free(p.y);
    free(p.dy);
    free(dx);
}

static void the_pools_oracles_agree_with_finite_differences(void **state)
{
    (void)state;
    struct draws draws = draws_new(84);
    check_pools(&draws, (struct pool2d_shape){2, 5, 6, 2, 3, 3, 2, 2, 1, 1, 3, 3});
    check_pools(&draws, (struct pool2d_shape){1, 7, 5, 2, 4, 2, 2, 3, 2, 0, 4, 2});
    check_pools(&draws, (struct pool2d_shape){2, 6, 6, 1, 3, 3, 2, 2, 0, 0, 3, 3}); /* ceil mode */
}

struct loss_problem {
    double *x;
    const int32_t *label;
    double smoothing;
};

static double loss_objective(void *arg)
{
    const struct loss_problem *p = arg;
    return naive_softmax_cross_entropy(4, 5, p->x, p->label, p->smoothing, 1.0, NULL);
}

static void the_losss_oracle_agrees_with_finite_differences(void **state)
{
    (void)state;
    static const int32_t label[] = {0, 4, 2, 2};
    static const double smoothing[] = {0.0, 0.1, 0.9};
    struct draws draws = draws_new(85);
    for (size_t i = 0; i < sizeof(smoothing) / sizeof(smoothing[0]); i++) {
        struct loss_problem p = {
            .x = draw_doubles(&draws, 20), .label = label, .smoothing = smoothing[i]};
        double *dx = zeros(20);
        (void)naive_softmax_cross_entropy(4, 5, p.x, label, p.smoothing, 1.0, dx);
        check_gradient(loss_objective, &p, p.x, dx, 20);
        free(p.x);
        free(dx);
    }
}

struct activation_problem {
    enum activation kind;
    double *x, *y, *dy;
};

static double activation_objective(void *arg)
{
    struct activation_problem *p = arg;
    naive_activation_forward(p->kind, 50, p->x, p->y);
    return weighted(p->y, p->dy, 50);
}

static void the_activations_oracles_agree_with_finite_differences(void **state)
{
    (void)state;
    struct draws draws = draws_new(86);
    for (int kind = ACTIVATION_GELU; kind <= ACTIVATION_SILU; kind++) {
        struct activation_problem p = {.kind = (enum activation)kind,
                                       .x = draw_doubles(&draws, 50),
                                       .y = zeros(50),
                                       .dy = draw_doubles(&draws, 50)};
        double *dx = zeros(50);
        for (size_t i = 0; i < 50; i++) {
            p.x[i] *= 5.0;
        }
        naive_activation_backward(p.kind, 50, p.x, p.dy, dx);
        check_gradient(activation_objective, &p, p.x, dx, 50);
        free(p.x);
        free(p.y);
        free(p.dy);
        free(dx);
    }
}

struct layer_norm_problem {
    struct layer_norm_shape shape;
    double *x, *weight, *bias, *y, *dy;
};

static double layer_norm_objective(void *arg)
{
    struct layer_norm_problem *p = arg;
    naive_layer_norm_forward(&p->shape, p->x, p->weight, p->bias, p->y);
    return weighted(p->y, p->dy, p->shape.M * p->shape.C);
}

static void the_layer_norm_oracle_agrees_with_finite_differences(void **state)
{
    (void)state;
    struct draws draws = draws_new(87);
    struct layer_norm_problem p = {.shape = {.M = 5, .C = 7, .epsilon = 1e-5},
                                   .x = draw_doubles(&draws, 35),
                                   .weight = draw_doubles(&draws, 7),
                                   .bias = draw_doubles(&draws, 7),
                                   .y = zeros(35),
                                   .dy = draw_doubles(&draws, 35)};
    double *dx = zeros(35);
    double *dweight = zeros(7);
    double *dbias = zeros(7);
    naive_layer_norm_backward(&p.shape, p.x, p.weight, p.dy, dx, dweight, dbias);
    check_gradient(layer_norm_objective, &p, p.x, dx, 35);
    check_gradient(layer_norm_objective, &p, p.weight, dweight, 7);
    check_gradient(layer_norm_objective, &p, p.bias, dbias, 7);
    double *all[] = {p.x, p.weight, p.bias, p.y, p.dy, dx, dweight, dbias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

struct attention_problem {
    struct attention_shape shape;
    double *x, *y, *dy;
};

static double attention_objective(void *arg)
{
    struct attention_problem *p = arg;
    naive_attention_forward(&p->shape, p->x, p->y);
    return weighted(p->y, p->dy, p->shape.N * p->shape.T * p->shape.C);
}

static void the_attentions_oracle_agrees_with_finite_differences(void **state)
{
    (void)state;
    struct draws draws = draws_new(88);
    for (int causal = 0; causal < 2; causal++) {
        struct attention_problem p = {
            .shape = {.N = 2, .T = 4, .C = 6, .heads = 2, .causal = causal},
            .x = draw_doubles(&draws, 144),
            .y = zeros(48),
            .dy = draw_doubles(&draws, 48)};
        double *dx = zeros(144);
        naive_attention_backward(&p.shape, p.x, p.dy, dx);
        check_gradient(attention_objective, &p, p.x, dx, 144);
        free(p.x);
        free(p.y);
        free(p.dy);
        free(dx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_convolutions_oracle_agrees_with_finite_differences),
        cmocka_unit_test(the_linear_oracle_agrees_with_finite_differences),
        cmocka_unit_test(the_batch_norm_oracle_agrees_with_finite_differences),
        cmocka_unit_test(the_pools_oracles_agree_with_finite_differences),
        cmocka_unit_test(the_activations_oracles_agree_with_finite_differences),
        cmocka_unit_test(the_layer_norm_oracle_agrees_with_finite_differences),
        cmocka_unit_test(the_attentions_oracle_agrees_with_finite_differences),
        cmocka_unit_test(the_losss_oracle_agrees_with_finite_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
