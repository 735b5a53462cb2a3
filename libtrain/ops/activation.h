/* activation.h: smooth activations, elementwise. Used by libtrain/stage; one calling thread.
 * Computed in double, with libtrain's own functions (elementary_vector.h). */
#ifndef LIBTRAIN_OPS_ACTIVATION_H
#define LIBTRAIN_OPS_ACTIVATION_H

#include <stdbool.h>

#include "libtrain/backend/pool.h"

enum activation {
    ACTIVATION_GELU, /* f(x) = x P(x), P the standard normal distribution function: PyTorch's
                        default form */
    ACTIVATION_SILU, /* f(x) = x / (1 + e^-x) */
};

/* y[i] = f(x[i]); y may be x (then there is no backward). */
void activation_forward(const struct compute *compute, enum activation kind, size_t count,
                        const float *x, float *y);
/* dx[i] = f'(x[i]) dy[i]: overwrites (dx may be dy), or accumulates. */
void activation_backward(const struct compute *compute, enum activation kind, size_t count,
                         const float *x, const float *dy, float *dx, bool accumulate);

#endif
