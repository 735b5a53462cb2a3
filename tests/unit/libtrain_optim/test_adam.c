#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "libtrain/optim/adam.h"
#include "libtrain/optim/optimizer.h"
#include "tests/unit/libtrain_ops/kernel_support.h"

#define COUNT 40003
#define STEPS 5
#define RATE 0.01

/* One element as PyTorch's documentation has it, in double. */
struct element {
    double parameter, average, square;
};

static void expect_step(const struct optimizer *o, int step, double rate, double gradient,
                        struct element *e)
{
    if (o->type == OPTIMIZER_ADAMW) {
        e->parameter -= rate * o->weight_decay * e->parameter;
    } else {
        gradient += o->weight_decay * e->parameter;
    }
    e->average = o->beta1 * e->average + (1.0 - o->beta1) * gradient;
    e->square = o->beta2 * e->square + (1.0 - o->beta2) * gradient * gradient;
    double average = e->average / (1.0 - pow(o->beta1, step));
    double square = e->square / (1.0 - pow(o->beta2, step));
    e->parameter -= rate * average / (sqrt(square) + o->epsilon);
}

struct arrays {
    float *parameter, *average, *square;
};

static struct arrays arrays_new(const float *start, size_t count)
{
    struct arrays arrays = {copy_floats(start, count), calloc(count, sizeof(float)),
                            calloc(count, sizeof(float))};
    assert_non_null(arrays.average);
    assert_non_null(arrays.square);
    return arrays;
}

static void arrays_done(struct arrays *arrays)
{
    free(arrays->parameter);
    free(arrays->average);
    free(arrays->square);
}

static void check(void **state, const struct optimizer *optimizer, size_t count)
{
    const struct kernel_pools *pools = *state;
    struct draws draws = draws_new(111);
    float *start = draw_floats(&draws, count);
    float *gradients = draw_floats(&draws, STEPS * count);
    double *oracle = zeros(count);
    for (size_t i = 0; i < count; i++) {
        struct element e = {.parameter = (double)start[i]};
        for (int step = 1; step <= STEPS; step++) {
            expect_step(optimizer, step, RATE, (double)gradients[(size_t)(step - 1) * count + i],
                        &e);
        }
        oracle[i] = e.parameter;
    }
    struct arrays first = {0};
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        struct compute compute = compute_init(pools->pool[pool], (struct workspace_bytes){0});
        struct arrays arrays = arrays_new(start, count);
        float *g = copy_floats(gradients, STEPS * count);
        float *other = copy_floats(gradients, count);
        for (int step = 1; step <= STEPS; step++) {
            float *before = arrays.parameter;
            if (pool > 0) { /* not in place */
                arrays.parameter = other;
                other = before;
            }
            adam_step(&compute, optimizer, step, RATE, count, before, arrays.parameter,
                      g + (size_t)(step - 1) * count, arrays.average, arrays.square);
        }
        free(other);
        for (size_t i = 0; i < STEPS * count; i++) {
            assert_true(g[i] == 0.0f);
        }
        assert_close_to_oracle(arrays.parameter, NULL, oracle, count, 1e-6);
        free(g);
        compute_done(&compute);
        if (pool == 0) {
            first = arrays;
            continue;
        }
        assert_memory_equal(arrays.parameter, first.parameter, count * sizeof(float));
        assert_memory_equal(arrays.average, first.average, count * sizeof(float));
        assert_memory_equal(arrays.square, first.square, count * sizeof(float));
        arrays_done(&arrays);
    }
    arrays_done(&first);
    free(start);
    free(gradients);
    free(oracle);
}

static const struct optimizer adam = {
    .type = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};

static void steps_are_those_of_the_formula_at_any_thread_count(void **state)
{
    static const size_t counts[] = {1, 2, 17, 1000, COUNT};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (int type = OPTIMIZER_ADAM; type <= OPTIMIZER_ADAMW; type++) {
            struct optimizer optimizer = adam;
            optimizer.type = type;
            check(state, &optimizer, counts[i]);
            optimizer.weight_decay = 0.1;
            check(state, &optimizer, counts[i]);
            optimizer.beta1 = 0.0;
            optimizer.beta2 = 0.5;
            optimizer.epsilon = 1.0;
            check(state, &optimizer, counts[i]);
        }
    }
}

/* Gradients of any size move a parameter by about the rate; none of the extremes gives a NaN. */
static void a_step_is_about_the_rate_for_any_gradient_size(void **state)
{
    const struct kernel_pools *pools = *state;
    struct compute compute = compute_init(pools->pool[0], (struct workspace_bytes){0});
    static const float sizes[] = {1e-6f, 1.0f, 1e6f, 1e18f};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        float p[1] = {0.0f}, g[1] = {-sizes[i]}, average[1] = {0.0f}, square[1] = {0.0f};
        adam_step(&compute, &adam, 1, RATE, 1, p, p, g, average, square);
        assert_true(fabs((double)p[0] - RATE) < RATE * 0.02);
    }
    static const float extremes[] = {0.0f, FLT_MIN, -FLT_MIN, 1e-20f, FLT_MAX, -FLT_MAX};
    struct optimizer sharp = adam;
    sharp.epsilon = OPTIMIZER_EPSILON_MIN;
    for (size_t i = 0; i < sizeof(extremes) / sizeof(extremes[0]); i++) {
        float p[1] = {1.0f}, average[1] = {0.0f}, square[1] = {0.0f};
        for (int64_t step = 1; step <= 3; step++) {
            float g[1] = {extremes[i]};
            adam_step(&compute, &sharp, step, RATE, 1, p, p, g, average, square);
            assert_true(fabs((double)p[0] - 1.0) < 4 * RATE);
        }
    }
    compute_done(&compute);
}

/* A billion steps on, the correction is 1. */
static void the_bias_correction_depends_on_the_step_alone(void **state)
{
    const struct kernel_pools *pools = *state;
    struct compute compute = compute_init(pools->pool[0], (struct workspace_bytes){0});
    static const int64_t steps[] = {1, 2, 1000, 1000000000};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        float p[1] = {0.0f}, g[1] = {1.0f}, average[1] = {0.0f}, square[1] = {0.0f};
        double step = (double)steps[i];
        adam_step(&compute, &adam, steps[i], RATE, 1, p, p, g, average, square);
        double expected = 0.1 / (1.0 - pow(0.9, step)) / sqrt(0.001 / (1.0 - pow(0.999, step)));
        assert_true(fabs((double)p[0] / -RATE - expected) < 1e-6 * expected);
    }
    compute_done(&compute);
}

static void the_table_finds_the_kernel_of_each_optimizer(void **state)
{
    const struct kernel_pools *pools = *state;
    struct compute compute = compute_init(pools->pool[0], (struct workspace_bytes){0});
    static const struct optimizer optimizers[] = {
        {.type = OPTIMIZER_SGD, .momentum = 0.9},
        {.type = OPTIMIZER_ADAM,
         .beta1 = 0.9,
         .beta2 = 0.999,
         .epsilon = 1e-8,
         .weight_decay = 0.5},
        {.type = OPTIMIZER_ADAMW,
         .beta1 = 0.9,
         .beta2 = 0.999,
         .epsilon = 1e-8,
         .weight_decay = 0.5},
    };
    /* From 2 with the gradient -1. Adam: the sum of the gradient and half the parameter is 0. */
    static const double expected[] = {2.1, 2.0, 2.0 * 0.95 + 0.1};
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
        float p[1] = {2.0f}, g[1] = {-1.0f}, first[1] = {0.0f}, second[1] = {0.0f};
        optimizer_update(&compute, &(struct optimizer_call){.optimizer = &optimizers[i],
                                                            .step = 1,
                                                            .rate = 0.1,
                                                            .count = 1,
                                                            .before = p,
                                                            .parameter = p,
                                                            .gradient = g,
                                                            .array = {first, second}});
        assert_true(fabs((double)p[0] - expected[i]) < 1e-6);
        assert_true(g[0] == 0.0f);
    }
    compute_done(&compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_the_formula_at_any_thread_count),
        cmocka_unit_test(a_step_is_about_the_rate_for_any_gradient_size),
        cmocka_unit_test(the_bias_correction_depends_on_the_step_alone),
        cmocka_unit_test(the_table_finds_the_kernel_of_each_optimizer),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
