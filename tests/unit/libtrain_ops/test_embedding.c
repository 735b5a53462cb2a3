#include <stdlib.h>
#include <string.h>

#include "libtrain/ops/embedding.h"
#include "tests/unit/libtrain_ops/kernel_support.h"

static void check_embedding(const struct kernel_pools *pools, struct draws *draws, size_t M,
                            size_t C, size_t rows)
{
    float *weight = draw_floats(draws, rows * C);
    float *dy = draw_floats(draws, M * C);
    float *token = draw_floats(draws, M);
    float *start = draw_floats(draws, rows * C);
    float *first = NULL;
    double *oracle = zeros(rows * C);
    for (size_t m = 0; m < M; m++) {
        size_t row = draw_size(draws, 0, rows - 1);
        token[m] = (float)row;
        for (size_t c = 0; c < C; c++) {
            oracle[row * C + c] += (double)dy[m * C + c];
        }
    }
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        struct compute compute = compute_init(pools->pool[pool], (struct workspace_bytes){0});
        float *y = copy_floats(dy, M * C);
        float *dweight = copy_floats(start, rows * C);
        embedding_forward(&compute, M, C, token, weight, y);
        for (size_t m = 0; m < M; m++) {
            assert_memory_equal(y + m * C, weight + (size_t)token[m] * C, C * sizeof(float));
        }
        embedding_backward(&compute, M, C, token, dy, dweight);
        assert_close_to_oracle(dweight, start, oracle, rows * C, 1e-5);
        free(y);
        compute_done(&compute);
        if (first) {
            assert_memory_equal(first, dweight, rows * C * sizeof(float));
            free(dweight);
        } else {
            first = dweight;
        }
    }
    void *all[] = {weight, dy, token, start, first, oracle};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void rows_are_looked_up_and_get_their_gradients_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(341);
    check_embedding(*state, &draws, 1, 1, 1);
    check_embedding(*state, &draws, 2000, 40, 256);
    check_embedding(*state, &draws, 500, 129, 3);
    for (int i = 0; i < 20; i++) {
        size_t M = draw_size(&draws, 1, 100);
        size_t C = draw_size(&draws, 1, 30);
        check_embedding(*state, &draws, M, C, draw_size(&draws, 1, 50));
    }
}

static void check_positions(const struct kernel_pools *pools, struct draws *draws, size_t N,
                            size_t count)
{
    float *x = draw_floats(draws, N * count);
    float *weight = draw_floats(draws, count);
    float *start = draw_floats(draws, count);
    float *first = NULL;
    double *oracle = zeros(count);
    for (size_t i = 0; i < N * count; i++) {
        oracle[i % count] += (double)x[i];
    }
    for (size_t pool = 0; pool < KERNEL_POOLS; pool++) {
        struct compute compute = compute_init(pools->pool[pool], (struct workspace_bytes){0});
        float *y = draw_floats(draws, N * count);
        float *in_place = copy_floats(x, N * count);
        float *dweight = copy_floats(start, count);
        positions_forward(&compute, N, count, x, weight, y);
        positions_forward(&compute, N, count, in_place, weight, in_place);
        assert_memory_equal(in_place, y, N * count * sizeof(float));
        for (size_t i = 0; i < N * count; i++) {
            assert_true(y[i] == x[i] + weight[i % count]);
        }
        positions_backward(&compute, N, count, x, dweight);
        assert_close_to_oracle(dweight, start, oracle, count, 1e-6);
        free(y);
        free(in_place);
        compute_done(&compute);
        if (first) {
            assert_memory_equal(first, dweight, count * sizeof(float));
            free(dweight);
        } else {
            first = dweight;
        }
    }
    void *all[] = {x, weight, start, first, oracle};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void positions_are_added_and_their_gradients_summed_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(342);
    check_positions(*state, &draws, 1, 1);
    check_positions(*state, &draws, 1, 257);
    check_positions(*state, &draws, 32, 64 * 128);
    for (int i = 0; i < 20; i++) {
        size_t N = draw_size(&draws, 1, 40);
        check_positions(*state, &draws, N, draw_size(&draws, 1, 900));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_looked_up_and_get_their_gradients_at_any_thread_count),
        cmocka_unit_test(positions_are_added_and_their_gradients_summed_at_any_thread_count),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
