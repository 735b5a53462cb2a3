#include <stdlib.h>
#include <string.h>

#include "libtrain/ops/attention.h"
#include "tests/unit/libtrain_ops/kernel_support.h"
#include "tests/unit/libtrain_ops/naive.h"

#define TOLERANCE 3e-6

struct attention_result {
    float *y, *dx;
};

static struct attention_result run(const struct attention_shape *s, const float *x, const float *dy,
                                   const float *start, bool accumulate, struct train_pool *pool)
{
    size_t count = s->N * s->T * s->C;
    struct compute compute = compute_init(pool, attention_workspace(s));
    struct attention_result r = {.y = copy_floats(dy, count), .dx = copy_floats(start, 3 * count)};
    attention_forward(&compute, s, x, r.y);
    attention_backward(&compute, s, x, dy, r.dx, accumulate);
    compute_done(&compute);
    return r;
}

static void check_shape(void **state, struct draws *draws, const struct attention_shape *s,
                        float spread)
{
    const struct kernel_pools *pools = *state;
    size_t count = s->N * s->T * s->C;
    bool accumulate = draw_size(draws, 0, 1);
    float *x = draw_floats(draws, 3 * count);
    float *dy = draw_floats(draws, count);
    float *start = draw_floats(draws, 3 * count);
    for (size_t i = 0; i < 3 * count; i++) {
        x[i] *= spread;
    }
    double *wide_x = widen(x, 3 * count);
    double *wide_dy = widen(dy, count);
    double *y = zeros(count);
    double *dx = zeros(3 * count);
    naive_attention_forward(s, wide_x, y);
    naive_attention_backward(s, wide_x, wide_dy, dx);
    struct attention_result first = run(s, x, dy, start, accumulate, pools->pool[0]);
    assert_close_to_oracle(first.y, NULL, y, count, TOLERANCE * (double)spread);
    assert_close_to_oracle(first.dx, accumulate ? start : NULL, dx, 3 * count,
                           TOLERANCE * (double)spread);
    for (size_t i = 1; i < KERNEL_POOLS; i++) {
        struct attention_result other = run(s, x, dy, start, accumulate, pools->pool[i]);
        assert_memory_equal(first.y, other.y, count * sizeof(float));
        assert_memory_equal(first.dx, other.dx, 3 * count * sizeof(float));
        free(other.y);
        free(other.dx);
    }
    void *all[] = {x, dy, start, wide_x, wide_dy, y, dx, first.y, first.dx};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void attentions_of_any_shape_match_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(331);
    for (int i = 0; i < 40; i++) {
        struct attention_shape s = {.N = draw_size(&draws, 1, 3),
                                    .T = draw_size(&draws, 1, 20),
                                    .heads = draw_size(&draws, 1, 4),
                                    .causal = draw_size(&draws, 0, 1)};
        s.C = s.heads * draw_size(&draws, 1, 9);
        check_shape(state, &draws, &s, 2.0f);
    }
}

static void attentions_of_several_blocks_match_the_oracle_at_any_thread_count(void **state)
{
    struct draws draws = draws_new(332);
    for (int causal = 0; causal < 2; causal++) {
        check_shape(state, &draws, &(struct attention_shape){1, 130, 6, 2, causal}, 1.0f);
        check_shape(state, &draws, &(struct attention_shape){2, 65, 5, 1, causal}, 4.0f);
    }
}

static void a_position_never_sees_later_ones(void **state)
{
    const struct kernel_pools *pools = *state;
    const struct attention_shape s = {.N = 1, .T = 100, .C = 8, .heads = 2, .causal = true};
    struct compute compute = compute_init(pools->pool[1], attention_workspace(&s));
    struct draws draws = draws_new(333);
    float *x = draw_floats(&draws, 2400);
    float *y = draw_floats(&draws, 800);
    float *other = draw_floats(&draws, 800);
    attention_forward(&compute, &s, x, y);
    for (size_t i = 70 * 24; i < 2400; i++) {
        x[i] = -x[i];
    }
    attention_forward(&compute, &s, x, other);
    assert_memory_equal(y, other, 70 * 8 * sizeof(float));
    assert_memory_not_equal(y + 560, other + 560, 8 * sizeof(float));
    /* Very large scores: the shares stay finite, all of it on one position. */
    for (size_t i = 0; i < 2400; i++) {
        x[i] *= 1e15f;
    }
    attention_forward(&compute, &s, x, other);
    for (size_t i = 0; i < 800; i++) {
        assert_true(other[i] - other[i] == 0.0f);
    }
    free(x);
    free(y);
    free(other);
    compute_done(&compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attentions_of_any_shape_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(attentions_of_several_blocks_match_the_oracle_at_any_thread_count),
        cmocka_unit_test(a_position_never_sees_later_ones),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
