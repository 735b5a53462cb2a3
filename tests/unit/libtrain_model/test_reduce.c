/* The tree against a recursion that is written as its definition. */
#include "libtrain/model/reduce.h"

#include <string.h>

#include "base/rng.h"
#include "tests/support/test.h"

#define COUNT_MAX 64

static size_t middle_of(size_t a, size_t b)
{
    size_t power = 1;
    while (power * 2 < b - a) {
        power *= 2;
    }
    return a + power;
}

/* Neither commutative nor associative: another order is another number. */
static uint64_t mix(uint64_t left, uint64_t right)
{
    uint64_t x = left * UINT64_C(0x9e3779b97f4a7c15) + (right ^ UINT64_C(0x2545f4914f6cdd1d));
    x ^= x >> 29;
    return x * UINT64_C(0xbf58476d1ce4e5b9);
}

static uint64_t leaf(size_t micro_batch)
{
    return mix(micro_batch + 1, 7);
}

static uint64_t tree(size_t a, size_t b)
{
    return b - a == 1 ? leaf(a) : mix(tree(a, middle_of(a, b)), tree(middle_of(a, b), b));
}

static bool is_node(size_t a, size_t b, struct reduce_range range)
{
    if (range.first == a && range.end == b) {
        return true;
    }
    if (b - a == 1) {
        return false;
    }
    const size_t m = middle_of(a, b);
    return range.end <= m ? is_node(a, m, range) : range.first >= m && is_node(m, b, range);
}

/* The fewest nodes that make up [first, end). */
static size_t fewest(size_t count, size_t first, size_t end)
{
    size_t least[COUNT_MAX + 1] = {0};
    for (size_t a = end; a-- > first;) {
        least[a] = SIZE_MAX;
        for (size_t b = a + 1; b <= end; b++) {
            const size_t rest = b == end ? 0 : least[b];
            if (is_node(0, count, (struct reduce_range){a, b}) && rest + 1 < least[a]) {
                least[a] = rest + 1;
            }
        }
    }
    return first == end ? 0 : least[first];
}

static void nodes_are_those_of_the_definition(void **state)
{
    (void)state;
    for (size_t count = 1; count <= COUNT_MAX; count++) {
        for (size_t a = 0; a < count; a++) {
            for (size_t b = a + 1; b <= count; b++) {
                const struct reduce_range range = {a, b};
                assert_int_equal(reduce_is_node(count, range), is_node(0, count, range));
            }
        }
        assert_false(reduce_is_node(count, (struct reduce_range){0, count + 1}));
        assert_false(reduce_is_node(count, (struct reduce_range){0, 0}));
    }
}

static void a_parent_is_made_of_a_node_and_its_sibling(void **state)
{
    (void)state;
    for (size_t count = 2; count <= COUNT_MAX; count++) {
        for (size_t a = 0; a < count; a++) {
            for (size_t b = a + 1; b <= count; b++) {
                struct reduce_range sibling;
                if (!is_node(0, count, (struct reduce_range){a, b}) || b - a == count) {
                    continue;
                }
                const struct reduce_range parent =
                    reduce_parent(count, (struct reduce_range){a, b}, &sibling);
                const size_t m = middle_of(parent.first, parent.end);
                assert_true(is_node(0, count, parent));
                assert_true((a == parent.first && b == m && sibling.first == m &&
                             sibling.end == parent.end) ||
                            (a == m && b == parent.end && sibling.first == parent.first &&
                             sibling.end == m));
            }
        }
    }
}

static void blocks_are_the_fewest_nodes_of_a_share(void **state)
{
    (void)state;
    for (size_t count = 1; count <= COUNT_MAX; count++) {
        size_t log2 = 0;
        while (count >> (log2 + 1) > 0) {
            log2++;
        }
        for (size_t a = 0; a <= count; a++) {
            for (size_t b = a; b <= count; b++) {
                struct reduce_range block[REDUCE_BLOCKS_MAX];
                const size_t blocks = reduce_blocks(count, (struct reduce_range){a, b}, block);
                assert_int_equal(blocks, fewest(count, a, b));
                assert_true(blocks <= (log2 > 0 ? 2 * log2 : 1));
                size_t at = a;
                for (size_t i = 0; i < blocks; i++) {
                    assert_int_equal(block[i].first, at);
                    assert_true(is_node(0, count, block[i]));
                    at = block[i].end;
                }
                assert_int_equal(at, b);
            }
        }
    }
}

static void shares_of_eight_seven_and_one_have_one_three_and_one_block(void **state)
{
    (void)state;
    struct reduce_range block[REDUCE_BLOCKS_MAX];
    assert_int_equal(reduce_blocks(16, (struct reduce_range){0, 8}, block), 1);
    assert_int_equal(reduce_blocks(16, (struct reduce_range){8, 15}, block), 3);
    assert_int_equal(block[0].end, 12);
    assert_int_equal(block[1].end, 14);
    assert_int_equal(reduce_blocks(16, (struct reduce_range){15, 16}, block), 1);
    assert_int_equal(reduce_blocks(1024, (struct reduce_range){1, 1023}, block), 18);
}

/* Put the sums of `blocks` in the order given, and return the sum of the step. */
static uint64_t add(size_t count, const struct reduce_range *block, const size_t *order,
                    size_t blocks, size_t *most)
{
    static struct reduce_sum room[COUNT_MAX];
    struct reduce_sums sums = {.count = count, .sum = room, .capacity = COUNT_MAX};
    uint64_t buffer[COUNT_MAX];
    struct reduce_sum sum = {{0, 0}, 0};
    for (size_t i = 0; i < blocks; i++) {
        size_t added;
        sum = (struct reduce_sum){block[order[i]], order[i]};
        buffer[order[i]] = tree(sum.range.first, sum.range.end);
        struct reduce_range before = sum.range;
        while (reduce_put(&sums, &sum, &added)) {
            const bool left = before.first == sum.range.first;
            const uint64_t mine = buffer[sum.buffer], its = buffer[added];
            buffer[sum.buffer] = left ? mix(mine, its) : mix(its, mine);
            before = sum.range;
        }
        *most = sums.waiting > *most ? sums.waiting : *most;
    }
    assert_int_equal(sums.waiting, 0);
    assert_int_equal(sum.range.end - sum.range.first, count);
    return buffer[sum.buffer];
}

static void shuffle(size_t *order, size_t count, uint64_t seed)
{
    const struct rng_stream random = rng_stream(seed, RNG_SIMULATION, 0, 0);
    for (size_t i = count; i > 1; i--) {
        const size_t k = (size_t)rng_below(&random, i, i);
        const size_t swap = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swap;
    }
}

static void the_order_of_arrival_changes_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        const struct rng_stream random = rng_stream(seed, RNG_SIMULATION, 1, 0);
        const size_t count = 1 + (size_t)rng_below(&random, 0, COUNT_MAX);
        struct reduce_range block[COUNT_MAX];
        size_t blocks = 0, first = 0, order[COUNT_MAX], most = 0;
        for (uint64_t draw = 1; first < count; draw++) {
            const size_t end = first + 1 + (size_t)rng_below(&random, draw, count - first);
            blocks += reduce_blocks(count, (struct reduce_range){first, end}, block + blocks);
            first = end;
        }
        for (size_t i = 0; i < blocks; i++) {
            order[i] = i;
        }
        shuffle(order, blocks, seed);
        assert_true(add(count, block, order, blocks, &most) == tree(0, count));
        assert_true(most <= blocks);
    }
}

static void a_share_in_the_middle_waits_with_its_blocks(void **state)
{
    (void)state;
    for (size_t count = 1; count <= COUNT_MAX; count++) {
        for (size_t a = 0; a < count; a++) {
            size_t most = 0;
            for (size_t b = a + 1; b <= count; b++) {
                const size_t waiting = b - a == count ? 0 : fewest(count, a, b);
                most = waiting > most ? waiting : most;
                assert_int_equal(reduce_waiting_max(count, (struct reduce_range){a, b}), most);
            }
        }
    }
    assert_int_equal(reduce_waiting_max(8, (struct reduce_range){1, 7}), 4);
    assert_int_equal(reduce_waiting_max(8, (struct reduce_range){4, 8}), 2);
    assert_int_equal(reduce_waiting_max(8, (struct reduce_range){3, 3}), 0);
    assert_int_equal(reduce_waiting_max(1, (struct reduce_range){0, 1}), 0);
    assert_int_equal(reduce_waiting_max(1024, (struct reduce_range){1, 1023}), 18);
}

static void micro_batches_in_order_leave_few_sums_waiting(void **state)
{
    (void)state;
    for (size_t count = 1; count <= COUNT_MAX; count++) {
        struct reduce_range leaf_range[COUNT_MAX];
        size_t order[COUNT_MAX], most = 0;
        for (size_t i = 0; i < count; i++) {
            leaf_range[i] = (struct reduce_range){i, i + 1};
            order[i] = i;
        }
        assert_true(add(count, leaf_range, order, count, &most) == tree(0, count));
        size_t log2 = 0;
        while (count >> (log2 + 1) > 0) {
            log2++;
        }
        assert_int_equal(most, log2);
        assert_int_equal(most, reduce_waiting_max(count, (struct reduce_range){0, count}));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_those_of_the_definition),
        cmocka_unit_test(a_parent_is_made_of_a_node_and_its_sibling),
        cmocka_unit_test(blocks_are_the_fewest_nodes_of_a_share),
        cmocka_unit_test(shares_of_eight_seven_and_one_have_one_three_and_one_block),
        cmocka_unit_test(the_order_of_arrival_changes_nothing),
        cmocka_unit_test(a_share_in_the_middle_waits_with_its_blocks),
        cmocka_unit_test(micro_batches_in_order_leave_few_sums_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
