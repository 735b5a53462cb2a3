#include "libtrain/model/reduce.h"

#include "base/assert.h"

size_t reduce_middle(struct reduce_range node)
{
    size_t power = 1;
    while (2 * power < node.end - node.first) {
        power *= 2;
    }
    return node.first + power;
}

static bool is_within(struct reduce_range inner, struct reduce_range outer)
{
    return outer.first <= inner.first && inner.end <= outer.end;
}

/* Descend from [0, count) to the smallest node that contains the range. */
static struct reduce_range smallest_around(size_t count, struct reduce_range range)
{
    struct reduce_range node = {0, count};
    while (node.end - node.first > 1) {
        const size_t middle = reduce_middle(node);
        const struct reduce_range left = {node.first, middle}, right = {middle, node.end};
        if (is_within(range, left)) {
            node = left;
        } else if (is_within(range, right)) {
            node = right;
        } else {
            break;
        }
    }
    return node;
}

static bool is_equal(struct reduce_range a, struct reduce_range b)
{
    return a.first == b.first && a.end == b.end;
}

bool reduce_is_node(size_t count, struct reduce_range range)
{
    return range.first < range.end && range.end <= count &&
           is_equal(smallest_around(count, range), range);
}

/* The largest node that begins at the share's first micro-batch and ends within it. */
static struct reduce_range first_block(size_t count, struct reduce_range share)
{
    struct reduce_range node = {0, count};
    while (node.first != share.first || node.end > share.end) {
        const size_t middle = reduce_middle(node);
        node = share.first < middle ? (struct reduce_range){node.first, middle}
                                    : (struct reduce_range){middle, node.end};
    }
    return node;
}

size_t reduce_blocks(size_t count, struct reduce_range share,
                     struct reduce_range out[REDUCE_BLOCKS_MAX])
{
    ASSERT(count <= REDUCE_COUNT_MAX && share.end <= count);
    size_t blocks = 0;
    while (share.first < share.end) {
        ASSERT(blocks < REDUCE_BLOCKS_MAX);
        out[blocks] = first_block(count, share);
        share.first = out[blocks++].end;
    }
    return blocks;
}

struct reduce_range reduce_parent(size_t count, struct reduce_range range,
                                  struct reduce_range *sibling)
{
    struct reduce_range node = {0, count};
    ASSERT(reduce_is_node(count, range) && !is_equal(range, node));
    for (;;) {
        const size_t middle = reduce_middle(node);
        const struct reduce_range left = {node.first, middle}, right = {middle, node.end};
        if (is_equal(range, left) || is_equal(range, right)) {
            *sibling = is_equal(range, left) ? right : left;
            return node;
        }
        node = is_within(range, left) ? left : right;
    }
}

bool reduce_put(struct reduce_sums *sums, struct reduce_sum *sum, size_t *added)
{
    struct reduce_range sibling;
    if (sum->range.end - sum->range.first == sums->count) {
        return false;
    }
    const struct reduce_range parent = reduce_parent(sums->count, sum->range, &sibling);
    for (size_t i = 0; i < sums->waiting; i++) {
        ASSERT(!is_equal(sums->sum[i].range, sum->range));
        if (is_equal(sums->sum[i].range, sibling)) {
            *added = sums->sum[i].buffer;
            sums->sum[i] = sums->sum[--sums->waiting];
            sum->range = parent;
            return true;
        }
    }
    ASSERT(sums->waiting < sums->capacity);
    sums->sum[sums->waiting++] = *sum;
    return false;
}

/* Try the prefixes of the share that may have the most blocks. Such a prefix ends at the share's
 * end, or at an index whose low binary digits are all ones: a multiple of a power of two, minus
 * one. */
size_t reduce_waiting_max(size_t count, struct reduce_range share)
{
    struct reduce_range block[REDUCE_BLOCKS_MAX];
    size_t most = 0;
    for (size_t power = 1; power <= REDUCE_COUNT_MAX; power *= 2) {
        const size_t below = share.end / power * power;
        const size_t end[] = {share.end, below > 0 ? below - 1 : 0};
        for (size_t i = 0; i < 2; i++) {
            const bool whole = end[i] - share.first >= count;
            if (end[i] > share.first && !whole) {
                const struct reduce_range done = {share.first, end[i]};
                const size_t waiting = reduce_blocks(count, done, block);
                most = waiting > most ? waiting : most;
            }
        }
    }
    return most;
}
