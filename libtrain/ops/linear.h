/* linear.h: fully connected layer. Used by libtrain/stage; one calling thread. Weights inside
 * libtrain: [O][F] with the features in the order H, W, C; PyTorch orders columns C, H, W, as it
 * flattens; linear_import and linear_export permute them. */
#ifndef LIBTRAIN_OPS_LINEAR_H
#define LIBTRAIN_OPS_LINEAR_H

#include <stdbool.h>

#include "libtrain/backend/pool.h"
#include "libtrain/model/shape.h"

struct linear_shape {
    size_t N, F, O; /* samples, features in, features out */
};

/* y[n,o] = bias[o] + sum over f of x[n,f] weight[o,f]. x [N][F], bias [O] or NULL, y [N][O]:
 * overwrites. */
void linear_forward(const struct compute *compute, const struct linear_shape *shape, const float *x,
                    const float *weight, const float *bias, float *y);
/* dx[n,f] = sum over o of dy[n,o] weight[o,f]: overwrites, or accumulates if `accumulate`. */
void linear_backward_data(const struct compute *compute, const struct linear_shape *shape,
                          const float *dy, const float *weight, float *dx, bool accumulate);
/* dweight[o,f] += sum over n of dy[n,o] x[n,f]; dbias[o] += sum of dy (NULL: none). Accumulate. */
void linear_backward_weights(const struct compute *compute, const struct linear_shape *shape,
                             const float *x, const float *dy, float *dweight, float *dbias);

/* Convert from and to PyTorch's layout; shape_elements(flat) == F. Overwrites `to`; no overlap. */
void linear_import(size_t O, struct shape flat, const float *from, float *to);
void linear_export(size_t O, struct shape flat, const float *from, float *to);

#endif
