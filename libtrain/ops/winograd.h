/* winograd.h: 3 x 3 convolutions with stride 1 by Winograd's minimal filtering F(4 x 4, 3 x 3): 36
 * multiplications for 16 outputs instead of 144. Forward, input gradient (the same with rotated
 * weights) and weight gradient (the adjoint). Differs from the direct sum by rounding, about 1e-4
 * of the largest value. For shapes of conv2d_is_winograd (winograd_plan.h); used by conv2d.c.
 * Tensors NHWC, weights [O][3][3][C]. Source: Lavin, Gray, "Fast algorithms for convolutional
 * neural networks" (2016). */
#ifndef LIBTRAIN_OPS_WINOGRAD_H
#define LIBTRAIN_OPS_WINOGRAD_H

#include <stdbool.h>

#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"

/* Overwrites y [N][OH][OW][O]; bias [O] or NULL. */
void winograd_forward(const struct compute *compute, const struct conv2d_shape *shape,
                      const float *x, const float *weight, const float *bias, float *y);
/* Overwrites dx [N][H][W][C], or accumulates. */
void winograd_backward_data(const struct compute *compute, const struct conv2d_shape *shape,
                            const float *dy, const float *weight, float *dx, bool accumulate);
/* Accumulates into dweight. */
void winograd_backward_weights(const struct compute *compute, const struct conv2d_shape *shape,
                               const float *x, const float *dy, float *dweight);

#endif
