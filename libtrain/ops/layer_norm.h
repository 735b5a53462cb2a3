/* layer_norm.h: normalisation of each row of a matrix [M][C] (a row is a position's channels), as
 * PyTorch's LayerNorm over the last dimension. Used by libtrain/stage; one calling thread. Sums run
 * in double and in a fixed order. */
#ifndef LIBTRAIN_OPS_LAYER_NORM_H
#define LIBTRAIN_OPS_LAYER_NORM_H

#include <stdbool.h>

#include "libtrain/backend/pool.h"

struct layer_norm_shape {
    size_t M, C;
    double epsilon;
};

/* y = (x - mean) / sqrt(variance + epsilon) weight + bias, with the mean and the (biased) variance
 * of each row; weight, bias [C]. saved [M][2]: out, mean and 1 / sqrt(variance + epsilon), for
 * backward; NULL: not wanted. Overwrites y, which may be x (then there is no backward). */
void layer_norm_forward(const struct compute *compute, const struct layer_norm_shape *shape,
                        const float *x, const float *weight, const float *bias, float *saved,
                        float *y);

/* With g = weight dy and xhat the normalised row: dx = (g - mean(g) - xhat mean(g xhat)) /
 * sqrt(variance + epsilon); overwrites or accumulates; NULL: not wanted; may be dy. dweight += sum
 * of dy xhat, dbias += sum of dy: accumulate; dweight NULL: neither is wanted. x as in forward. */
void layer_norm_backward(const struct compute *compute, const struct layer_norm_shape *shape,
                         const float *x, const float *weight, const float *saved, const float *dy,
                         float *dx, bool accumulate, float *dweight, float *dbias);

#endif
