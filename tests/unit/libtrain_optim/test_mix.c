#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "libtrain/model/reduce.h"
#include "libtrain/optim/mix.h"
#include "tests/support/test.h"

enum { COUNT = 1000, GROUPS = 6, MIXES = 1000 };

/* Groups, their number of samples, and the copies of a mix. */
struct groups {
    float x[MIX_GROUPS_MAX][COUNT], copy[2][COUNT];
    int64_t samples[MIX_GROUPS_MAX];
};

static void init(uint64_t seed, struct groups *groups)
{
    for (size_t g = 0; g < MIX_GROUPS_MAX; g++) {
        const struct rng_stream stream = rng_stream(seed, RNG_SIMULATION, g, 0);
        for (size_t i = 0; i < COUNT; i++) {
            groups->x[g][i] = 2 * rng_uniform(&stream, i) - 1;
        }
        groups->samples[g] = 1 + (int64_t)rng_below(&stream, COUNT, 1000);
    }
}

/* Mix two groups; the shares add up to 1. */
static void mix(struct groups *groups, size_t a, size_t b, double alpha)
{
    memcpy(groups->copy[0], groups->x[a], sizeof(groups->copy[0]));
    memcpy(groups->copy[1], groups->x[b], sizeof(groups->copy[1]));
    mix_parameters(COUNT, alpha, groups->copy[0], groups->copy[1], groups->x[a]);
    mix_parameters(COUNT, 1 - alpha, groups->copy[1], groups->copy[0], groups->x[b]);
}

/* The weighted sum of an element over the groups. */
static double sum_of(const struct groups *groups, size_t element, bool by_samples)
{
    double sum = 0;
    for (size_t g = 0; g < GROUPS; g++) {
        sum += (by_samples ? (double)groups->samples[g] : 1) * (double)groups->x[g][element];
    }
    return sum;
}

static void check_kept(bool by_samples)
{
    static struct groups groups;
    double before[COUNT], scale = 0;
    init(by_samples, &groups);
    const struct rng_stream stream = rng_stream(3, RNG_SIMULATION, 99, 0);
    for (size_t i = 0; i < COUNT; i++) {
        before[i] = sum_of(&groups, i, by_samples);
        scale = fmax(scale, fabs(before[i]));
    }
    for (uint64_t m = 0; m < MIXES; m++) {
        const size_t a = (size_t)rng_below(&stream, 2 * m, GROUPS);
        const size_t b = (a + 1 + (size_t)rng_below(&stream, 2 * m + 1, GROUPS - 1)) % GROUPS;
        const double of_b = (double)groups.samples[b];
        mix(&groups, a, b, by_samples ? of_b / (of_b + (double)groups.samples[a]) : 0.5);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(fabs(sum_of(&groups, i, by_samples) - before[i]) < 1e-5 * scale);
        assert_true(fabsf(groups.x[0][i] - groups.x[GROUPS - 1][i]) < 1e-5F); /* they agree */
    }
}

static void a_thousand_mixes_keep_the_mean(void **state)
{
    (void)state;
    check_kept(false);
}

static void a_thousand_mixes_keep_the_sum_by_samples(void **state)
{
    (void)state;
    check_kept(true);
}

/* The steps that a group makes while it fetches are not lost. */
static void the_difference_of_copies_is_added_to_the_present_state(void **state)
{
    (void)state;
    const float own[] = {1, 2}, peer[] = {3, -2};
    float x[] = {1.5F, 2.5F};
    mix_parameters(2, 0.25, own, peer, x);
    assert_true(x[0] == 2 && x[1] == 1.5F);
    mix_parameters(2, 0, own, peer, x);
    assert_true(x[0] == 2 && x[1] == 1.5F);
    mix_parameters(2, 1, x, peer, x); /* takes over the state */
    assert_true(x[0] == 3 && x[1] == -2);
}

static void variances_stay_positive(void **state)
{
    (void)state;
    static struct groups groups;
    init(5, &groups);
    for (size_t i = 0; i < COUNT; i++) {
        groups.x[0][i] = fabsf(groups.x[0][i]) * 1e-6F;
        groups.x[1][i] = fabsf(groups.x[1][i]) * 1e6F;
    }
    for (int alpha = 0; alpha <= 10; alpha++) {
        float r[COUNT];
        memcpy(r, groups.x[0], sizeof(r));
        mix_statistics(COUNT, alpha / 10.0, groups.x[1], r);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(r[i] >= 0 && r[i] <= groups.x[1][i] * 1.0001F);
        }
    }
}

static void what_is_not_finite_is_seen(void **state)
{
    (void)state;
    float x[] = {0, 1, -1e30F, 1e-45F};
    const float bad[] = {NAN, INFINITY, -INFINITY, 1.1e30F};
    assert_true(mix_is_finite(4, x) && mix_is_finite(0, NULL));
    for (size_t i = 0; i < 16; i++) {
        const float before = x[i % 4];
        x[i % 4] = bad[i / 4];
        assert_false(mix_is_finite(4, x));
        x[i % 4] = before;
    }
}

static void squares_are_summed_in_double(void **state)
{
    (void)state;
    const float x[] = {3, 1e-4F}, y[] = {0, 1e-4F};
    assert_true(mix_squares(2, x, NULL) == 9 + (double)1e-4F * (double)1e-4F);
    assert_true(mix_squares(2, x, y) == 9);
    assert_true(mix_squares(0, x, y) == 0);
}

/* The sum of groups [first, end) of an element, by the parents of reduce.h. */
static float tree(const struct groups *groups, const double *weight, size_t count,
                  struct reduce_range range, size_t element)
{
    if (range.end - range.first == 1) {
        const float x = groups->x[range.first][element];
        return weight ? (float)weight[range.first] * x : x;
    }
    size_t middle = range.first + 1;
    for (; middle < range.end; middle++) { /* the child whose parent this is */
        const struct reduce_range left = {range.first, middle};
        struct reduce_range right;
        if (reduce_is_node(count, left)) {
            const struct reduce_range parent = reduce_parent(count, left, &right);
            if (parent.first == range.first && parent.end == range.end) {
                break;
            }
        }
    }
    return tree(groups, weight, count, (struct reduce_range){range.first, middle}, element) +
           tree(groups, weight, count, (struct reduce_range){middle, range.end}, element);
}

static void averages_have_the_order_of_the_tree(void **state)
{
    (void)state;
    static struct groups groups;
    static float out[COUNT];
    const float *x[MIX_GROUPS_MAX];
    init(9, &groups);
    for (size_t count = 1; count <= MIX_GROUPS_MAX; count++) {
        double weight[MIX_GROUPS_MAX], sum = 0;
        for (size_t g = 0; g < count; g++) {
            x[g] = groups.x[g];
            sum += (double)groups.samples[g];
        }
        for (size_t g = 0; g < count; g++) {
            weight[g] = (double)groups.samples[g] / sum;
        }
        mix_average(x, count, NULL, COUNT, out);
        for (size_t i = 0; i < COUNT; i++) {
            const float expected = tree(&groups, NULL, count, (struct reduce_range){0, count}, i);
            assert_true(out[i] == expected * (float)(1.0 / (double)count));
        }
        mix_average(x, count, weight, COUNT, out);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(out[i] == tree(&groups, weight, count, (struct reduce_range){0, count}, i));
        }
    }
    mix_average(x, 1, NULL, COUNT, out);
    assert_memory_equal(out, groups.x[0], sizeof(out));
}

static void check_sum(const struct groups *groups, size_t count, const double *weight)
{
    static float part[MIX_SUMS_MAX][COUNT], expected[COUNT];
    const float *x[MIX_GROUPS_MAX];
    struct mix_sum sum = {.groups = count, .count = COUNT, .weight = weight};
    for (size_t p = 0; p < mix_sums(count); p++) {
        sum.part[p] = part[p]; /* not one more than it says */
    }
    for (size_t g = 0; g < count; g++) {
        x[g] = groups->x[g];
        memcpy(mix_sum_next(&sum), x[g], sizeof(expected));
        mix_sum_add(&sum);
    }
    mix_average(x, count, weight, COUNT, expected);
    assert_int_equal(sum.depth, 1);
    assert_memory_equal(part[0], expected, sizeof(expected));
}

static void states_that_come_one_by_one_have_the_same_average(void **state)
{
    (void)state;
    static struct groups groups;
    init(11, &groups);
    assert_int_equal(mix_sums(1), 1);
    assert_int_equal(mix_sums(7), 3);
    assert_int_equal(mix_sums(MIX_GROUPS_MAX), MIX_SUMS_MAX);
    for (size_t count = 1; count <= MIX_GROUPS_MAX; count++) {
        double weight[MIX_GROUPS_MAX];
        for (size_t g = 0; g < count; g++) {
            weight[g] = (double)groups.samples[g] / 1e4;
        }
        check_sum(&groups, count, NULL);
        check_sum(&groups, count, weight);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_mixes_keep_the_mean),
        cmocka_unit_test(a_thousand_mixes_keep_the_sum_by_samples),
        cmocka_unit_test(the_difference_of_copies_is_added_to_the_present_state),
        cmocka_unit_test(variances_stay_positive),
        cmocka_unit_test(what_is_not_finite_is_seen),
        cmocka_unit_test(squares_are_summed_in_double),
        cmocka_unit_test(averages_have_the_order_of_the_tree),
        cmocka_unit_test(states_that_come_one_by_one_have_the_same_average),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
