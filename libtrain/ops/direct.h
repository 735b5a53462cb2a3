/* direct.h: convolutions of few channels, whose windows overlap in memory. The rows under an output
 * row are copied once, zero-padded; a window's row is then KW * C contiguous floats, one pixel from
 * the next window's. Forward and weight gradient are products over these, without im2col. For
 * shapes of conv2d_is_direct (direct_plan.h); used by conv2d.c. Tensors NHWC, weights
 * [O][KH][KW][C]. */
#ifndef LIBTRAIN_OPS_DIRECT_H
#define LIBTRAIN_OPS_DIRECT_H

#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"

/* Overwrites y [N][OH][OW][O]; bias [O] or NULL. */
void direct_forward(const struct compute *compute, const struct conv2d_shape *shape, const float *x,
                    const float *weight, const float *bias, float *y);
/* Accumulates into dweight. */
void direct_backward_weights(const struct compute *compute, const struct conv2d_shape *shape,
                             const float *x, const float *dy, float *dweight);

#endif
