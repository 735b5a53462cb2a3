/* pointwise.h: 1 x 1 convolutions without stride, padding and groups: products of all pixels [N * H
 * * W][C] and the weights [O][C], which are packed in panels once per call. For shapes of
 * conv2d_is_pointwise (workspace.h); used by conv2d.c. */
#ifndef LIBTRAIN_OPS_POINTWISE_H
#define LIBTRAIN_OPS_POINTWISE_H

#include <stdbool.h>

#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"

/* Overwrites y [N][H][W][O]; bias [O] or NULL. */
void pointwise_forward(const struct compute *compute, const struct conv2d_shape *shape,
                       const float *x, const float *weight, const float *bias, float *y);
/* Overwrites dx [N][H][W][C], or accumulates. */
void pointwise_backward_data(const struct compute *compute, const struct conv2d_shape *shape,
                             const float *dy, const float *weight, float *dx, bool accumulate);
/* Accumulates into dweight. */
void pointwise_backward_weights(const struct compute *compute, const struct conv2d_shape *shape,
                                const float *x, const float *dy, float *dweight);

#endif
