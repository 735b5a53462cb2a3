#include "libtrain/optim/mix.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/model/reduce.h"
#include "libtrain/model/shards.h"

_Static_assert(MIX_GROUPS_MAX == SHARDS_MAX, "each group has a shard");

void mix_parameters(size_t count, double alpha, const float *own, const float *peer, float *x)
{
    const float share = (float)alpha;
    for (size_t i = 0; i < count; i++) {
        x[i] += share * (peer[i] - own[i]);
    }
}

void mix_statistics(size_t count, double alpha, const float *peer, float *r)
{
    const float share = (float)alpha, rest = (float)(1 - alpha);
    for (size_t i = 0; i < count; i++) {
        r[i] = rest * r[i] + share * peer[i];
    }
}

bool mix_is_finite(size_t count, const float *x)
{
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        finite &= fabsf(x[i]) <= MIX_VALUE_MAX; /* false for NaN */
    }
    return finite;
}

double mix_squares(size_t count, const float *x, const float *y)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double difference = (double)x[i] - (y ? (double)y[i] : 0);
        sum += difference * difference;
    }
    return sum;
}

/* ---- the average ---- */

#define PIECE 256 /* floats: all levels of the tree stay in the fastest cache */

/* A piece of the states, from `at` on. */
struct piece {
    const float *const *state;
    const double *weight;
    size_t at, count;
};

static void read_leaf(const struct piece *piece, size_t group, float *out)
{
    memcpy(out, piece->state[group] + piece->at, piece->count * sizeof(out[0]));
    const float weight = piece->weight ? (float)piece->weight[group] : 1;
    for (size_t i = 0; i < piece->count && piece->weight; i++) {
        out[i] *= weight;
    }
}

static void add_tree(const struct piece *piece, struct reduce_range node, float *out)
{
    if (node.end - node.first == 1) {
        read_leaf(piece, node.first, out);
        return;
    }
    const size_t middle = reduce_middle(node);
    float right[PIECE];
    add_tree(piece, (struct reduce_range){node.first, middle}, out);
    add_tree(piece, (struct reduce_range){middle, node.end}, right);
    for (size_t i = 0; i < piece->count; i++) {
        out[i] += right[i];
    }
}

void mix_average(const float *const *state, size_t groups, const double *weight, size_t count,
                 float *out)
{
    const float each = (float)(1.0 / (double)groups);
    ASSERT(groups >= 1 && groups <= MIX_GROUPS_MAX);
    for (size_t at = 0; at < count; at += PIECE) {
        const size_t left = count - at;
        const struct piece piece = {state, weight, at, left < PIECE ? left : PIECE};
        add_tree(&piece, (struct reduce_range){0, groups}, out + at);
        for (size_t i = 0; i < piece.count && !weight; i++) {
            out[at + i] *= each;
        }
    }
}

/* ---- the average of states that come one after the other ---- */

size_t mix_sums(size_t groups)
{
    size_t parts = 1;
    while (groups >>= 1) {
        parts++;
    }
    return parts;
}

float *mix_sum_next(const struct mix_sum *sum)
{
    ASSERT(sum->added < sum->groups && sum->depth < mix_sums(sum->groups));
    return sum->part[sum->depth];
}

static void scale(size_t count, float factor, float *x)
{
    for (size_t i = 0; i < count; i++) {
        x[i] *= factor;
    }
}

/* Add the last part to the one before it. */
static void join(struct mix_sum *sum)
{
    float *left = sum->part[sum->depth - 2];
    const float *right = sum->part[sum->depth - 1];
    for (size_t i = 0; i < sum->count; i++) {
        left[i] += right[i];
    }
    sum->depth--;
}

void mix_sum_add(struct mix_sum *sum)
{
    float *state = mix_sum_next(sum);
    if (sum->weight) {
        scale(sum->count, (float)sum->weight[sum->added], state);
    }
    sum->added++;
    sum->depth++;
    /* Two sums of the same number of states form a node of the tree. */
    for (size_t nodes = sum->added; nodes % 2 == 0; nodes /= 2) {
        join(sum);
    }
    if (sum->added < sum->groups) {
        return;
    }
    while (sum->depth > 1) { /* the remaining parts: later ones are smaller */
        join(sum);
    }
    if (!sum->weight) {
        scale(sum->count, (float)(1.0 / (double)sum->groups), sum->part[0]);
    }
}
