/* relu.h: rectifiers over `count` floats. Used by libtrain/stage; one calling thread. NaN passes
 * through, so that a diverged run is detected. */
#ifndef LIBTRAIN_OPS_RELU_H
#define LIBTRAIN_OPS_RELU_H

#include <stdbool.h>

#include "libtrain/backend/pool.h"

#define RELU_NO_CEILING 0.0f

/* y = max(x, 0), and min with `ceiling` (relu6: 6.0f) unless it is RELU_NO_CEILING. Overwrites; y
 * may be x. */
void relu_forward(const struct compute *compute, size_t count, float ceiling, const float *x,
                  float *y);
/* dx = dy where 0 < y (and y < ceiling), else 0: overwrites, or accumulates; dx may be dy. y:
 * forward's output. */
void relu_backward(const struct compute *compute, size_t count, float ceiling, const float *y,
                   const float *dy, float *dx, bool accumulate);

#endif
