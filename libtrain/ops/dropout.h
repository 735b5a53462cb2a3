/* dropout.h: inverted dropout. The mask is a pure function of (stream, element), so nothing is kept
 * for backward, which draws the same mask again. Used by libtrain/stage; one calling thread. */
#ifndef LIBTRAIN_OPS_DROPOUT_H
#define LIBTRAIN_OPS_DROPOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "libtrain/backend/pool.h"

struct dropout_mask {
    struct rng_stream stream;
    uint64_t first; /* index of element 0: position of the first sample in the batch * elements of a
                       sample */
    double rate;    /* probability of a zero, [0, 1) */
};

/* y[i] = x[i] / (1 - rate) where rng_uniform(stream, first + i) >= rate, else 0. Overwrites (y may
 * be x), or accumulates. Backward is the same function of dy. */
void dropout_apply(const struct compute *compute, size_t count, const struct dropout_mask *mask,
                   const float *x, float *y, bool accumulate);

#endif
