/* channel_sum.h: sums over the rows of a matrix in a fixed order, for the gradients of biases. Used
 * by libtrain/ops. */
#ifndef LIBTRAIN_OPS_CHANNEL_SUM_H
#define LIBTRAIN_OPS_CHANNEL_SUM_H

#include "libtrain/backend/pool.h"

/* sum[c] += sum over m of x[m,c], in double within a slab of rows and over the slabs in order:
 * accumulates. x [M][C], sum [C]. Needs SLAB_PARTIALS_MAX * C doubles of shared scratch. */
void channel_sum(const struct compute *compute, size_t M, size_t C, const float *x, float *sum);

#endif
