/* onednn_plan.h: how a convolution is cut into blocks of samples for oneDNN's kernels, and what
 * memory that takes: arithmetic on the shape, shared by the memory plan and
 * libtrain/ops/onednn_conv2d.c. Borders depend on the shape alone. The library's own scratch is
 * known only where it is built in: here it is estimated, and a stage that finds more takes more.
 * Pure; any thread. */
#ifndef LIBTRAIN_KERNELS_ONEDNN_PLAN_H
#define LIBTRAIN_KERNELS_ONEDNN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/kernels/workspace.h"

struct onednn_plan {
    size_t
        block; /* samples of a task of the forward pass or the gradient of the input; divides N */
    size_t partials; /* sums of the weights' gradient, each over N / partials samples; divides N */
};
struct onednn_plan onednn_plan_of(enum conv2d_kernel kernel, const struct conv2d_shape *shape);

/* Scratch of all passes, estimated. */
struct workspace_bytes onednn_workspace(enum conv2d_kernel kernel,
                                        const struct conv2d_shape *shape);
/* The weights in the library's layouts, one for each pass that reads them: kept from one update to
 * the next. */
uint64_t onednn_packed_bytes(struct conv2d_kernels kernels, const struct conv2d_shape *shape);

#endif
