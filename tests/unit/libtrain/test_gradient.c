#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "libtrain/optim/gradient.h"
#include "tests/unit/libtrain/kernel_support.h"

#define COUNT 40003

static const size_t counts[] = {1, 2, 15, 16, 17, 16384, 33000, COUNT};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static void one_bad_gradient_anywhere_is_noticed(void **state)
{
    const struct kernel_pools *pools = *state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct draws draws = draws_new(102);
    struct compute compute = compute_init(pools->pool[1], (struct workspace_bytes){0});
    float *g = draw_floats(&draws, COUNT);
    for (int i = 0; i < 50; i++) {
        size_t at = draw_size(&draws, 0, COUNT - 1);
        float kept = g[at];
        g[at] = bad[i % 3];
        assert_false(gradient_all_finite(&compute, COUNT, g));
        g[at] = kept;
        assert_true(gradient_all_finite(&compute, COUNT, g));
    }
    free(g);
    compute_done(&compute);
}

static void clipping_by_value_cuts_each_element(void **state)
{
    const struct kernel_pools *pools = *state;
    struct draws draws = draws_new(103);
    for (size_t i = 0; i < COUNTS; i++) {
        float *start = draw_floats(&draws, counts[i]);
        start[0] = -FLT_MAX;
        for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
            struct compute compute = compute_init(pools->pool[pool], (struct workspace_bytes){0});
            float *g = copy_floats(start, counts[i]);
            gradient_clip_value(&compute, counts[i], 0.25f, g);
            for (size_t k = 0; k < counts[i]; k++) {
                assert_true(g[k] == fmaxf(fminf(start[k], 0.25f), -0.25f));
            }
            free(g);
            compute_done(&compute);
        }
        free(start);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_bad_gradient_anywhere_is_noticed),
        cmocka_unit_test(clipping_by_value_cuts_each_element),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
