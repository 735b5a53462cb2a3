/* direct.h: convolutions of few channels, whose windows overlap in memory: the rows under an output
 * row are copied once with their zeros around them, and a window's row is then KW * C floats one
 * behind the other, a pixel apart from the next window's. Forward and gradient of the weights are
 * products over these, without a matrix of columns. For shapes that conv2d_is_direct
 * (direct_plan.h) names; used by conv2d.c. Tensors NHWC, weights [O][KH][KW][C]. */
#ifndef LIBTRAIN_OPS_DIRECT_H
#define LIBTRAIN_OPS_DIRECT_H

#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"

/* y [N][OH][OW][O]; bias [O] or NULL. */
void direct_forward(const struct compute *compute, const struct conv2d_shape *shape, const float *x,
                    const float *weight, const float *bias, float *y);
/* Added to dweight. */
void direct_backward_weights(const struct compute *compute, const struct conv2d_shape *shape,
                             const float *x, const float *dy, float *dweight);

#endif
