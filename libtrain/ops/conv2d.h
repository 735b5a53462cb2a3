/* conv2d.h: 2-D convolution (cross-correlation, as usual in deep learning) over NHWC. Shapes,
 * groups and scratch: libtrain/kernels/workspace.h. Used by libtrain/stage; one calling thread.
 * `kernels` names which of our own kernels computes each pass; CONV2D_BY_SHAPE chooses by shape.
 *
 * Weights inside libtrain: [O][KH][KW][C / G]; depthwise (G == C == O): [KH][KW][C]. conv2d_import
 * and conv2d_export convert from and to PyTorch's [O][C / G][KH][KW]. */
#ifndef LIBTRAIN_OPS_CONV2D_H
#define LIBTRAIN_OPS_CONV2D_H

#include <stdbool.h>

#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"

/* y[n,oh,ow,o] = bias[o] + sum over kh, kw, c of x[n, oh SH - PH + kh, ow SW - PW + kw, c]
 * weight[o,kh,kw,c], zero outside. x [N][H][W][C], bias [O] or NULL, y [N][OH][OW][O]: overwrites.
 * No overlap. */
void conv2d_forward(const struct compute *compute, const struct conv2d_shape *shape,
                    struct conv2d_kernels kernels, const float *x, const float *weight,
                    const float *bias, float *y);

/* dx = dy * weight, transposed: overwrites, or accumulates if `accumulate`. dy [N][OH][OW][O], dx
 * [N][H][W][C]. No overlap. */
void conv2d_backward_data(const struct compute *compute, const struct conv2d_shape *shape,
                          struct conv2d_kernels kernels, const float *dy, const float *weight,
                          float *dx, bool accumulate);

/* dweight[o,kh,kw,c] += sum over n, oh, ow of dy x. */
void conv2d_backward_weights(const struct compute *compute, const struct conv2d_shape *shape,
                             struct conv2d_kernels kernels, const float *x, const float *dy,
                             float *dweight);
/* dbias[o] += sum of dy. */
void conv2d_backward_bias(const struct compute *compute, const struct conv2d_shape *shape,
                          const float *dy, float *dbias);

/* Convert from and to PyTorch's layout; O * KH * KW * C / G floats. Overwrites `to`; no overlap. */
void conv2d_import(const struct conv2d_shape *shape, const float *from, float *to);
void conv2d_export(const struct conv2d_shape *shape, const float *from, float *to);

#endif
