#include <stdlib.h>

#include "libtrain/optim/mean.h"
#include "tests/unit/libtrain_ops/kernel_support.h"

#define VERSIONS_MAX 6

static void check(const struct kernel_pools *pools, size_t count, size_t versions)
{
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        struct compute compute = compute_init(pools->pool[pool], (struct workspace_bytes){0});
        struct draws draws = draws_new(count);
        float *version[VERSIONS_MAX], *before[VERSIONS_MAX];
        for (size_t v = 0; v < versions; v++) {
            version[v] = draw_floats(&draws, count);
            before[v] = copy_floats(version[v], count);
        }
        mean_into_last(&compute, count, versions, version);
        for (size_t i = 0; i < count; i++) {
            float sum = before[0][i];
            for (size_t v = 1; v < versions; v++) {
                sum += before[v][i];
            }
            assert_true(version[versions - 1][i] == sum / (float)versions);
        }
        for (size_t v = 0; v < versions; v++) {
            if (v + 1 < versions) {
                assert_memory_equal(version[v], before[v], count * sizeof(float));
            }
            free(version[v]);
            free(before[v]);
        }
        compute_done(&compute);
    }
}

static void the_last_version_becomes_the_mean_and_the_others_stay(void **state)
{
    static const size_t counts[] = {1, 15, 1024, 1025, 40003};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (size_t versions = 1; versions <= VERSIONS_MAX; versions++) {
            check(*state, counts[i], versions);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_version_becomes_the_mean_and_the_others_stay),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
