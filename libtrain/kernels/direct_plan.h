/* direct_plan.h: how a convolution of few channels is split into strips of output rows. Each strip
 * is computed from a zero-padded copy of the input rows under it. Arithmetic on the shape, shared
 * by the memory plan and libtrain/ops/direct.c. Pure; any thread. */
#ifndef LIBTRAIN_KERNELS_DIRECT_PLAN_H
#define LIBTRAIN_KERNELS_DIRECT_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/kernels/workspace.h"

/* Whether the kernel applies: one group, a window of several positions, few channels and few
 * weights. Forward, and the gradient of the weights. */
bool conv2d_is_direct(const struct conv2d_shape *shape);

struct direct_plan {
    size_t row;          /* floats of one padded input row */
    size_t window;       /* floats of a window's row: KW * C */
    size_t strip_rows;   /* output rows of a whole strip */
    size_t strips;       /* of one sample */
    size_t strip_floats; /* the input rows of a whole strip, and the floats that vector loads read
                            beyond them */
    size_t filters;      /* floats of an output pixel as vectors write it: O rounded up */
    size_t
        columns; /* floats of a row of the weight gradient as vectors write it: window rounded up */
    size_t weights_slabs; /* partial sums of the weight gradient, over ranges of strips */
};
struct direct_plan direct_plan_of(const struct conv2d_shape *shape);

/* Scratch of both passes. */
struct workspace_bytes direct_workspace(const struct conv2d_shape *shape);

#endif
