/* pool2d.h: maximum and average over windows, and over the whole plane. NHWC. Used by
 * libtrain/stage; one calling thread. Windows start at oh SH - PH and stay within the padded input,
 * except the last ones in ceil mode, which are truncated there. */
#ifndef LIBTRAIN_OPS_POOL2D_H
#define LIBTRAIN_OPS_POOL2D_H

#include <stdbool.h>
#include <stdint.h>

#include "libtrain/backend/pool.h"

struct pool2d_shape {
    size_t N, H, W, C, KH, KW, SH, SW, PH, PW;
    size_t OH, OW;
};

/* y = the largest x of the window; padding never wins. position [N][OH][OW][C]: the winner, kh KW +
 * kw, the first of equals; NULL: not wanted. x [N][H][W][C], y [N][OH][OW][C]: overwrites. Every
 * window meets the input (P < K in both directions). */
void max_pool_forward(const struct compute *compute, const struct pool2d_shape *shape,
                      const float *x, float *y, uint16_t *position);
/* dx = dy at the winner of each window, else 0: overwrites, or accumulates. */
void max_pool_backward(const struct compute *compute, const struct pool2d_shape *shape,
                       const uint16_t *position, const float *dy, float *dx, bool accumulate);

/* y = sum over the window / its elements; padding counts as zeros (PyTorch's default).
 * Overwrites. */
void avg_pool_forward(const struct compute *compute, const struct pool2d_shape *shape,
                      const float *x, float *y);
/* dx = sum over the windows with x of dy / the window's elements: overwrites, or accumulates. */
void avg_pool_backward(const struct compute *compute, const struct pool2d_shape *shape,
                       const float *dy, float *dx, bool accumulate);

/* y[n,c] = mean over H, W of x[n,h,w,c]. pixels = H * W; y [N][C]: overwrites. */
void global_avg_pool_forward(const struct compute *compute, size_t N, size_t pixels, size_t C,
                             const float *x, float *y);
/* dx[n,h,w,c] = dy[n,c] / pixels: overwrites, or accumulates. */
void global_avg_pool_backward(const struct compute *compute, size_t N, size_t pixels, size_t C,
                              const float *dy, float *dx, bool accumulate);

#endif
