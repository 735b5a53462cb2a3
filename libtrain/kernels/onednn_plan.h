/* onednn_plan.h: how a convolution is split into blocks of samples for oneDNN's kernels, and the
 * memory that takes. Arithmetic on the shape, shared by the memory plan and
 * libtrain/ops/onednn_conv2d.c; boundaries of blocks depend on the shape alone. The library's own
 * scratch is known only in builds that have it: here it is estimated, and a stage that needs more
 * allocates more. Pure; any thread. */
#ifndef LIBTRAIN_KERNELS_ONEDNN_PLAN_H
#define LIBTRAIN_KERNELS_ONEDNN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/kernels/workspace.h"

struct onednn_plan {
    size_t block;    /* samples of a task of the forward pass or the input gradient; divides N */
    size_t partials; /* sums of the weight gradient, each over N / partials samples; divides N */
};
struct onednn_plan onednn_plan_of(enum conv2d_kernel kernel, const struct conv2d_shape *shape);

/* Estimate the scratch of all passes. */
struct workspace_bytes onednn_workspace(enum conv2d_kernel kernel,
                                        const struct conv2d_shape *shape);
/* Bytes of the weights in the library's layouts, one copy for each pass that reads them, kept from
 * one update to the next. */
uint64_t onednn_packed_bytes(struct conv2d_kernels kernels, const struct conv2d_shape *shape);

#endif
