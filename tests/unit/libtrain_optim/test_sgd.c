#include <stdlib.h>

#include "libtrain/optim/sgd.h"
#include "tests/unit/libtrain_ops/kernel_support.h"

#define COUNT 40003

/* PyTorch's SGD, one element, in float; a missing buffer starts as the gradient. */
static void expect_step(const struct optimizer *o, float rate, float *p, float g, float *buffer,
                        bool first)
{
    g = g + (float)o->weight_decay * *p;
    if (o->momentum > 0.0) {
        *buffer = first ? g : (float)o->momentum * *buffer + g;
        g = o->nesterov ? g + (float)o->momentum * *buffer : *buffer;
    }
    *p = *p - rate * g;
}

/* One update: in place, or into *other, which becomes *p. */
static void step_once(const struct compute *compute, const struct optimizer *optimizer,
                      bool in_place, float **p, float **other, float *g, float *buffer)
{
    float *before = *p;
    if (!in_place) {
        *p = *other;
        *other = before;
    }
    sgd_step(compute, optimizer, 0.05, COUNT, before, *p, g,
             optimizer->momentum > 0.0 ? buffer : NULL);
}

static void check(void **state, const struct optimizer *optimizer)
{
    const struct kernel_pools *pools = *state;
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        struct compute compute = compute_init(pools->pool[pool], (struct workspace_bytes){0});
        struct draws draws = draws_new(101);
        float *p = draw_floats(&draws, COUNT);
        float *other = draw_floats(&draws, COUNT);
        float *buffer = calloc(COUNT, sizeof(float));
        float *expected_p = copy_floats(p, COUNT);
        float *expected_buffer = calloc(COUNT, sizeof(float));
        assert_non_null(buffer);
        assert_non_null(expected_buffer);
        for (int step = 0; step < 4; step++) {
            float *g = draw_floats(&draws, COUNT);
            for (size_t i = 0; i < COUNT; i++) {
                expect_step(optimizer, 0.05f, &expected_p[i], g[i], &expected_buffer[i], step == 0);
            }
            step_once(&compute, optimizer, pool == 0, &p, &other, g, buffer);
            for (size_t i = 0; i < COUNT; i++) {
                assert_true(g[i] == 0.0f);
            }
            free(g);
        }
        assert_memory_equal(p, expected_p, COUNT * sizeof(float));
        assert_memory_equal(buffer, expected_buffer, COUNT * sizeof(float));
        free(p);
        free(other);
        free(buffer);
        free(expected_p);
        free(expected_buffer);
        compute_done(&compute);
    }
}

static void a_step_equals_that_of_pytorch(void **state)
{
    check(state, &(struct optimizer){.type = OPTIMIZER_SGD});
    check(state, &(struct optimizer){.type = OPTIMIZER_SGD, .weight_decay = 0.01});
    check(state, &(struct optimizer){.type = OPTIMIZER_SGD, .momentum = 0.9});
    check(state, &(struct optimizer){.type = OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 5e-4});
    check(state,
          &(struct optimizer){
              .type = OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_equals_that_of_pytorch),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
