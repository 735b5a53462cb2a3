/* mix.h: the arithmetic by which groups that train apart come together (strategy gossip): moving
 * towards the state of another group, and the average of several. float32 in the stated order, so
 * that the log of all mixes determines every bit. The caller has the floating-point mode of the
 * threads that train (denormals are kept). Pure; nothing allocates. */
#ifndef LIBTRAIN_OPTIM_MIX_H
#define LIBTRAIN_OPTIM_MIX_H

#include <stdbool.h>
#include <stddef.h>

#define MIX_GROUPS_MAX 32

/* Parameters: add a share of the difference of two copies of some steps ago, whatever the steps
 * since have added: x[i] += alpha * (peer[i] - own[i]).
 *
 *     alpha  0 to 1, rounded to float32 */
void mix_parameters(size_t count, double alpha, const float *own, const float *peer, float *x);
/* Running statistics: r[i] = (1 - alpha) * r[i] + alpha * peer[i], with alpha and 1 - alpha rounded
 * to float32. The present value takes the place of the copy: a variance never becomes negative. */
void mix_statistics(size_t count, double alpha, const float *peer, float *r);
/* Return whether all are finite: no other copy is ever mixed. */
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

#endif
