/* depthwise.h: the convolution with one filter per channel (G == C == O): direct loops over
 * channels, no matrices. Used by conv2d.c, whose contracts it follows. weight [KH][KW][C]. */
#ifndef LIBTRAIN_OPS_DEPTHWISE_H
#define LIBTRAIN_OPS_DEPTHWISE_H

#include <stdbool.h>

#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"

/* y[n,oh,ow,c] = bias[c] + sum over kh, kw of x[n, oh SH - PH + kh, ow SW - PW + kw, c]
 * weight[kh,kw,c]; overwrites. */
void depthwise_forward(const struct compute *compute, const struct conv2d_shape *shape,
                       const float *x, const float *weight, const float *bias, float *y);
/* Overwrites dx, or accumulates. */
void depthwise_backward_data(const struct compute *compute, const struct conv2d_shape *shape,
                             const float *dy, const float *weight, float *dx, bool accumulate);
/* Accumulates into dweight. Needs SLAB_PARTIALS_MAX * KH * KW * C doubles of shared scratch. */
void depthwise_backward_weights(const struct compute *compute, const struct conv2d_shape *shape,
                                const float *x, const float *dy, float *dweight);

#endif
