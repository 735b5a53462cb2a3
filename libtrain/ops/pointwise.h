/* pointwise.h: convolutions of 1 x 1 without stride, padding and groups: products of all pixels [N
 * * H * W][C] and the weights [O][C], which are put into panels once a call. For shapes that
 * conv2d_is_pointwise (workspace.h) names; used by conv2d.c. */
#ifndef LIBTRAIN_OPS_POINTWISE_H
#define LIBTRAIN_OPS_POINTWISE_H

#include <stdbool.h>

#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"

/* y [N][H][W][O]; bias [O] or NULL. */
void pointwise_forward(const struct compute *compute, const struct conv2d_shape *shape,
                       const float *x, const float *weight, const float *bias, float *y);
/* dx [N][H][W][C], added to what is there if `accumulate`. */
void pointwise_backward_data(const struct compute *compute, const struct conv2d_shape *shape,
                             const float *dy, const float *weight, float *dx, bool accumulate);
/* Added to dweight. */
void pointwise_backward_weights(const struct compute *compute, const struct conv2d_shape *shape,
                                const float *x, const float *dy, float *dweight);

#endif
