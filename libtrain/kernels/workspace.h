/* workspace.h: how kernels split their work into slabs, and the scratch memory that takes.
 * Arithmetic on shapes, shared by the memory plan (which promises the bytes) and libtrain/ops
 * (which uses them). The boundaries of slabs depend on shapes alone, never on the number of
 * threads; that is why the results do not depend on it either. Pure; any thread. */
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

/* Return the number of slabs for `items` pieces of `elements` floats each: at least 16 Ki floats
 * per slab, at most `max` slabs, at least 1. */
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
/* 1 x 1, stride 1, no padding: the input is its own im2col matrix. */
bool conv2d_is_pointwise(const struct conv2d_shape *shape);
/* Floats of one output pixel's row in the im2col matrix: KH * KW * C / G. */
size_t conv2d_row_floats(const struct conv2d_shape *shape);
/* Slabs of pixels of a pointwise convolution. */
size_t conv2d_pointwise_slabs(const struct conv2d_shape *shape);
/* Slabs of output pixels of the im2col forward pass. The im2col rows of a slab fit a second-level
 * cache if possible. */
size_t conv2d_pixel_slabs(const struct conv2d_shape *shape);
/* Slabs of samples of the input gradient, and the output pixels of one step within a slab. */
size_t conv2d_sample_slabs(const struct conv2d_shape *shape);
size_t conv2d_step_pixels(const struct conv2d_shape *shape);

/* How the weight gradient is split: `partials` sums over ranges of pixels, each in `ranges` blocks
 * of columns. Small gradients use partial sums, large ones blocks (no second copy of the
 * weights). */
struct conv2d_weight_slabs {
    size_t partials, ranges;
};
struct conv2d_weight_slabs conv2d_weight_slabs(const struct conv2d_shape *shape);

/* Scratch of a kernel: one buffer shared by all threads and one buffer per thread. Counted in 64
 * bits, so that a plan larger than this machine's address space is a large number, not a wrapped
 * one. */
struct workspace_bytes {
    uint64_t shared, worker;
};
/* The next multiple of WORKSPACE_ALIGNMENT. */
static inline uint64_t workspace_align(uint64_t bytes)
{
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

/* Scratch of all passes with these kernels; CONV2D_BY_SHAPE means our own kernels. */
struct workspace_bytes conv2d_workspace(const struct conv2d_shape *shape,
                                        struct conv2d_kernels kernels);
#define BATCH_NORM_SAVED 4 /* arrays of C floats kept from forward to backward */
/* M rows of C channels. */
struct workspace_bytes batch_norm_workspace(size_t M, size_t C);
/* M rows of C channels. */
struct workspace_bytes layer_norm_workspace(size_t M, size_t C);

/* N sequences of T positions; q, k and v of C channels each, split into equal heads. */
struct attention_shape {
    size_t N, T, C, heads;
    bool causal;
};
/* Queries processed at once: their scores fit a second-level cache if possible. */
size_t attention_block_rows(const struct attention_shape *shape);
struct workspace_bytes attention_workspace(const struct attention_shape *shape);

/* N rows of scores, each with a label. */
struct workspace_bytes softmax_cross_entropy_workspace(size_t N);

#endif
