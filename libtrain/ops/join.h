/* join.h: the ops that join branches, the selection of channels, copies, and the conversion of
 * stored samples. Used by libtrain/stage; one calling thread. */
#ifndef LIBTRAIN_OPS_JOIN_H
#define LIBTRAIN_OPS_JOIN_H

#include <stdbool.h>

#include "libtrain/backend/pool.h"
#include "libtrain/model/recipe.h"

/* y = x[0] + x[1] + ..., in this order, over `count` floats: overwrites; y may be x[0]. inputs
 * >= 1. */
void add_forward(const struct compute *compute, size_t count, const float *const *x, size_t inputs,
                 float *y);
/* dx = dy: overwrites, or accumulates (one input of a sum; also a flatten). */
void copy_backward(const struct compute *compute, size_t count, const float *dy, float *dx,
                   bool accumulate);

/* Copy x [M][C] to columns [offset, offset + C) of y [M][width]. Overwrites only these. */
void concat_forward(const struct compute *compute, size_t M, size_t C, size_t width, size_t offset,
                    const float *x, float *y);
/* dx [M][C] = columns [offset, offset + C) of dy [M][width]: overwrites, or accumulates. */
void concat_backward(const struct compute *compute, size_t M, size_t C, size_t width, size_t offset,
                     const float *dy, float *dx, bool accumulate);

/* y [M][C] = columns [offset, offset + C) of x [M][width]. Overwrites. */
void select_forward(const struct compute *compute, size_t M, size_t C, size_t width, size_t offset,
                    const float *x, float *y);
/* Columns [offset, offset + C) of dx [M][width] = dy [M][C], the others 0: overwrites all of dx. Or
 * accumulates: the others keep their values. */
void select_backward(const struct compute *compute, size_t M, size_t C, size_t width, size_t offset,
                     const float *dy, float *dx, bool accumulate);

/* y = scale * x for bytes or floats: how stored samples enter the first unit. Overwrites; no
 * overlap. */
void scale_bytes(const struct compute *compute, size_t count, float scale, const unsigned char *x,
                 float *y);
void scale_floats(const struct compute *compute, size_t count, float scale, const float *x,
                  float *y);
/* The same with a mean and std per channel; channels are interleaved. y = x (scale / std) + (-mean
 * / std), both factors computed in double and then rounded. count: a multiple of the channels. */
void normalise_bytes(const struct compute *compute, size_t count, double scale,
                     const struct normalise *normalise, const unsigned char *x, float *y);
void normalise_floats(const struct compute *compute, size_t count, double scale,
                      const struct normalise *normalise, const float *x, float *y);

#endif
