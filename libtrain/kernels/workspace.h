/* workspace.h: how kernels cut their work into slabs and what scratch memory that takes: arithmetic
 * on shapes, shared by the memory plan (which promises the bytes) and libtrain/ops (which uses
 * them). Borders of slabs depend on shapes alone, never on the number of threads: that is why
 * results do not depend on it. Pure; any thread. */
#ifndef LIBTRAIN_KERNELS_WORKSPACE_H
#define LIBTRAIN_KERNELS_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libtrain/model/kernel_names.h"

#define WORKSPACE_ALIGNMENT 64     /* bytes: a cache line and the widest vector */
#define WORKSPACE_PANEL 32         /* columns of a panel of packed weights */
#define SLABS_MAX 16               /* slabs of work without partial sums */
#define SLAB_PARTIALS_MAX 8        /* partial sums per channel */
#define SLAB_WEIGHT_PARTIALS_MAX 4 /* partial weight gradients of a convolution */

/* Into how many slabs `items` pieces of `elements` floats each are cut: at least 16 Ki floats to a
 * slab, at most `max` slabs, at least 1. */
size_t slab_count(size_t items, size_t elements, size_t max);

/* First item of slab `slab` of `count`; slab_begin(items, count, count) == items. */
static inline size_t slab_begin(size_t items, size_t count, size_t slab)
{
    return items / count * slab + items % count * slab / count;
}

/* A convolution of N samples [H][W][C] with O filters of KH x KW, strides SH and SW, zero padding
 * PH above and below, PW on the left and right, and G groups. */
struct conv2d_shape {
    size_t N, H, W, C, O, KH, KW, SH, SW, PH, PW, G;
    size_t OH, OW;
};

/* One channel per group and one filter per channel: a kernel of its own, without matrices. */
bool conv2d_is_depthwise(const struct conv2d_shape *shape);
/* 1 x 1, stride 1, no padding: the input is the matrix of columns. */
bool conv2d_is_pointwise(const struct conv2d_shape *shape);
/* Floats of one output pixel's row in the matrix of columns: KH * KW * C / G. */
size_t conv2d_row_floats(const struct conv2d_shape *shape);
/* Slabs of pixels of a pointwise one. */
size_t conv2d_pointwise_slabs(const struct conv2d_shape *shape);
/* Slabs of output pixels of the forward pass by columns; a slab's columns fit a second-level cache
 * where that is possible. */
size_t conv2d_pixel_slabs(const struct conv2d_shape *shape);
/* Slabs of samples of the backward pass to the input, and the output pixels of one step within a
 * slab. */
size_t conv2d_sample_slabs(const struct conv2d_shape *shape);
size_t conv2d_step_pixels(const struct conv2d_shape *shape);

/* How the weight gradient is cut: `partials` sums over ranges of pixels, each in `ranges` blocks of
 * columns. Small gradients take partials, large ones blocks (no second copy of the weights). */
struct conv2d_weight_slabs {
    size_t partials, ranges;
};
struct conv2d_weight_slabs conv2d_weight_slabs(const struct conv2d_shape *shape);

/* Scratch of both passes: one buffer for all threads and one buffer per thread. Counted in 64 bits
 * everywhere, so that a plan for more than this machine can address is a large number, not a small
 * one. */
struct workspace_bytes {
    uint64_t shared, worker;
};
/* The next multiple of WORKSPACE_ALIGNMENT. */
static inline uint64_t workspace_align(uint64_t bytes)
{
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

/* With these kernels, our own by shape where they say nothing. */
struct workspace_bytes conv2d_workspace(const struct conv2d_shape *shape,
                                        struct conv2d_kernels kernels);
#define BATCH_NORM_SAVED                                                                           \
    4 /* arrays of C floats that a batch-norm keeps from forward to backward                       \
       */
/* M rows of C channels. */
struct workspace_bytes batch_norm_workspace(size_t M, size_t C);
/* M rows of C channels. */
struct workspace_bytes layer_norm_workspace(size_t M, size_t C);

/* N sequences of T positions; q, k and v of C channels each, cut into equal heads. */
struct attention_shape {
    size_t N, T, C, heads;
    bool causal;
};
/* Queries that are done at once: their scores fit a second-level cache where that is possible. */
size_t attention_block_rows(const struct attention_shape *shape);
struct workspace_bytes attention_workspace(const struct attention_shape *shape);

/* N rows of scores, each with a label. */
struct workspace_bytes softmax_cross_entropy_workspace(size_t N);

#endif
