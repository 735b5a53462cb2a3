/* batch_norm.h: batch normalisation over the rows of a matrix [M][C] (NHWC: M = N H W), as
 * PyTorch's BatchNorm, with a following relu or relu6 in the same passes. Used by libtrain/stage;
 * one calling thread. Sums run in double, over slabs of rows in a fixed order. */
#ifndef LIBTRAIN_OPS_BATCH_NORM_H
#define LIBTRAIN_OPS_BATCH_NORM_H

#include <stdbool.h>

#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"

struct batch_norm_shape {
    size_t M, C;
    double epsilon;
    double momentum; /* weight of the new statistics in the running ones */
    bool relu; /* y = min(max(y, 0), ceiling), bit for bit as relu.h; dy is then the gradient after
                  it */
    float ceiling; /* RELU_NO_CEILING, or the upper end of relu6 */
};

/* Training: mean and variance (biased) of this micro-batch; y = (x - mean) / sqrt(variance +
 * epsilon) weight + bias.
 *
 *     running_mean, running_variance  [C], move towards them (unbiased variance; of a single row,
 * the biased one) saved                           [BATCH_NORM_SAVED][C], out, for backward: mean,
 *                                     1 / sqrt(variance + epsilon), and the factor and the summand
 *                                     that map x to y
 *     x, y                            [M][C]; overwrites y, which may be x (then there is no
 * backward) */
void batch_norm_forward(const struct compute *compute, const struct batch_norm_shape *shape,
                        const float *x, const float *weight, const float *bias, float *running_mean,
                        float *running_variance, float *saved, float *y);

/* Recompute the y of batch_norm_forward, bit for bit, from its x and saved data; overwrites. */
void batch_norm_again(const struct compute *compute, const struct batch_norm_shape *shape,
                      const float *x, const float *saved, float *y);

/* Evaluation: y = (x - running_mean) / sqrt(running_variance + epsilon) weight + bias; overwrites,
 * y may be x. */
void batch_norm_evaluate(const struct compute *compute, const struct batch_norm_shape *shape,
                         const float *x, const float *weight, const float *bias,
                         const float *running_mean, const float *running_variance, float *y);

/* dx = weight / sqrt(variance + epsilon) (dy - mean(dy) - xhat mean(dy xhat)): overwrites or
 * accumulates; may be dy; NULL: not wanted. dweight += sum of dy xhat, dbias += sum of dy:
 * accumulate. x as in forward. */
void batch_norm_backward(const struct compute *compute, const struct batch_norm_shape *shape,
                         const float *x, const float *weight, const float *saved, const float *dy,
                         float *dx, bool accumulate, float *dweight, float *dbias);

/* Backward of batch_norm_evaluate, whose statistics do not depend on x: dx = weight /
 * sqrt(running_variance + epsilon) dy; overwrites or accumulates; may be dy. x as in evaluate: it
 * decides where the activation is flat. */
void batch_norm_backward_frozen(const struct compute *compute, const struct batch_norm_shape *shape,
                                const float *x, const float *weight, const float *bias,
                                const float *running_mean, const float *running_variance,
                                const float *dy, float *dx, bool accumulate);

#endif
