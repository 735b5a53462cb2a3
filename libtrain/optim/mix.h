/* mix.h: the arithmetic of mixes between groups that train apart (strategy gossip): moving towards
 * the state of another group, and the average of several groups. float32 in the stated order, so
 * that the log of all mixes determines every bit. The caller sets the floating-point mode of the
 * training threads (denormals are kept). Pure; nothing allocates. */
#ifndef LIBTRAIN_OPTIM_MIX_H
#define LIBTRAIN_OPTIM_MIX_H

#include <stdbool.h>
#include <stddef.h>

#define MIX_GROUPS_MAX 32

/* Mix parameters. Add a share of the difference of two earlier copies, and keep the changes of the
 * steps since then: x[i] += alpha * (peer[i] - own[i]).
 *
 *     alpha  0 to 1, rounded to float32 */
void mix_parameters(size_t count, double alpha, const float *own, const float *peer, float *x);
/* Mix running statistics: r[i] = (1 - alpha) * r[i] + alpha * peer[i], with alpha and 1 - alpha
 * rounded to float32. The present value is used instead of the copy, so that a variance never
 * becomes negative. */
void mix_statistics(size_t count, double alpha, const float *peer, float *r);
#define MIX_VALUE_MAX 1e30F /* differences, and sums over all groups, stay finite */
/* Return whether all values are finite and within the bound. Only such copies are mixed. */
bool mix_is_finite(size_t count, const float *x);
/* Return the sum of the squares of x - y in double, in order; y may be NULL: of x. The distance of
 * a group from the mean is the root of one over the root of the other. */
double mix_squares(size_t count, const float *x, const float *y);

/* The average of groups: out[i] = tree over the groups of weight[g] * state[g][i], with the tree of
 * libtrain/model/reduce.h. Without weights the tree is over state[g][i], and its sum is multiplied
 * by 1 / groups, rounded to float32.
 *
 *     state   [groups] arrays [count], in the order of the groups
 *     groups  1 to MIX_GROUPS_MAX
 *     weight  [groups] rounded to float32, or NULL
 *     out     [count], not one of state */
void mix_average(const float *const *state, size_t groups, const double *weight, size_t count,
                 float *out);

/* The same average of states that arrive one after the other, in the order of the groups, with
 * memory for a few of them. The caller writes each state to the array of mix_sum_next and adds it
 * by mix_sum_add. After the last one part[0] is the average, equal in every bit. Plain data. */
#define MIX_SUMS_MAX 6 /* of MIX_GROUPS_MAX groups */
struct mix_sum {
    float *part[MIX_SUMS_MAX]; /* [mix_sums(groups)] arrays [count]; borrowed */
    size_t groups, count;
    const double *weight; /* [groups] as of mix_average, or NULL; borrowed */
    size_t added;         /* states */
    size_t depth; /* parts in use, one for each set bit of `added`, whose value is its number of
                     states */
};
/* Return the parts that an average of `groups` groups needs: 1 + log2(groups), rounded down. */
size_t mix_sums(size_t groups);
/* Return the array for the next state. Not after the last state. */
float *mix_sum_next(const struct mix_sum *sum);
void mix_sum_add(struct mix_sum *sum);

#endif
