/* naive.h: the oracle of each kernel: the formula as plain loops in double, slow and obvious.
 * Weights in PyTorch's layouts. Gradients accumulate. Tests only. */
#ifndef TESTS_UNIT_LIBTRAIN_OPS_NAIVE_H
#define TESTS_UNIT_LIBTRAIN_OPS_NAIVE_H

#include <stdint.h>

#include "libtrain/kernels/workspace.h"
#include "libtrain/model/shape.h"
#include "libtrain/ops/activation.h"
#include "libtrain/ops/batch_norm.h"
#include "libtrain/ops/layer_norm.h"
#include "libtrain/ops/linear.h"
#include "libtrain/ops/pool2d.h"

/* weight [O][C / G][KH][KW]; bias may be NULL. */
void naive_conv2d_forward(const struct conv2d_shape *s, const double *x, const double *weight,
                          const double *bias, double *y);
/* dx, dweight, dbias: each may be NULL. */
void naive_conv2d_backward(const struct conv2d_shape *s, const double *x, const double *weight,
                           const double *dy, double *dx, double *dweight, double *dbias);

/* weight [O][F], features in the order C, H, W of `flat`; x [N] in the order H, W, C. */
void naive_linear_forward(const struct linear_shape *s, struct shape flat, const double *x,
                          const double *weight, const double *bias, double *y);
void naive_linear_backward(const struct linear_shape *s, struct shape flat, const double *x,
                           const double *weight, const double *dy, double *dx, double *dweight,
                           double *dbias);

/* mean, variance [C]: out, of the batch (biased). */
void naive_batch_norm_forward(const struct batch_norm_shape *s, const double *x,
                              const double *weight, const double *bias, double *mean,
                              double *variance, double *y);
void naive_batch_norm_backward(const struct batch_norm_shape *s, const double *x,
                               const double *weight, const double *dy, double *dx, double *dweight,
                               double *dbias);

void naive_max_pool_forward(const struct pool2d_shape *s, const double *x, double *y);
void naive_max_pool_backward(const struct pool2d_shape *s, const double *x, const double *dy,
                             double *dx);
void naive_avg_pool_forward(const struct pool2d_shape *s, const double *x, double *y);
void naive_avg_pool_backward(const struct pool2d_shape *s, const double *dy, double *dx);

/* P(x): the standard normal distribution's share below x, by libm's erf. */
void naive_activation_forward(enum activation kind, size_t count, const double *x, double *y);
void naive_activation_backward(enum activation kind, size_t count, const double *x,
                               const double *dy, double *dx);

void naive_layer_norm_forward(const struct layer_norm_shape *s, const double *x,
                              const double *weight, const double *bias, double *y);
void naive_layer_norm_backward(const struct layer_norm_shape *s, const double *x,
                               const double *weight, const double *dy, double *dx, double *dweight,
                               double *dbias);

/* x, dx [N][T][3 C], y, dy [N][T][C]. */
void naive_attention_forward(const struct attention_shape *s, const double *x, double *y);
void naive_attention_backward(const struct attention_shape *s, const double *x, const double *dy,
                              double *dx);

/* The sum of the losses; dx NULL: not wanted. With libm's exp and log. */
double naive_softmax_cross_entropy(size_t N, size_t C, const double *x, const int32_t *label,
                                   double smoothing, double scale, double *dx);

#endif
