/* winograd_plan.h: how a 3 x 3 convolution is split into tiles, blocks of tiles and parts of
 * channels for Winograd's F(4 x 4, 3 x 3). Arithmetic on the shape, shared by the memory plan and
 * libtrain/ops/winograd.c. Pure; any thread. */
#ifndef LIBTRAIN_KERNELS_WINOGRAD_PLAN_H
#define LIBTRAIN_KERNELS_WINOGRAD_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/kernels/workspace.h"

#define WINOGRAD_KERNEL 3
#define WINOGRAD_TILE 4      /* outputs of a tile, in each direction */
#define WINOGRAD_POINTS 36   /* products of a tile for each pair of channels */
#define WINOGRAD_CHANNELS 16 /* channels transformed at once: points have zeros after the last */

/* Floats from one point to the next in an array with `floats` per point. Never a power of two, or
 * the 36 points of a tile would share one cache set. */
static inline uint64_t winograd_plane(uint64_t floats)
{
    return floats + WINOGRAD_CHANNELS;
}

/* Whether the kernel applies: 3 x 3, stride 1, one group, at least WINOGRAD_CHANNELS channels and
 * filters, and few outputs wasted at the edge. */
bool conv2d_can_winograd(const struct conv2d_shape *shape);
/* Whether it is chosen by shape: it applies without zeros after the last channel. Jobs keep the
 * kernels, and so the bits, that they have by shape. */
bool conv2d_is_winograd(const struct conv2d_shape *shape);

/* The forward pass, or the input gradient: the same with input and output exchanged. */
struct winograd_plan {
    size_t in, out;               /* channels read and written */
    size_t in_points, out_points; /* the same, up to the next multiple of WINOGRAD_CHANNELS */
    size_t padding;
    size_t tile_rows, tile_columns; /* of one sample */
    size_t tiles;                   /* of all */
    size_t panels;                  /* of the weights' columns */
    size_t block_tiles;             /* at most */
    size_t blocks, parts;           /* a task is one block of tiles and one part of the panels */
};
struct winograd_plan winograd_plan_of(const struct conv2d_shape *shape, bool backward);

/* The weight gradient. */
struct winograd_weights_plan {
    struct winograd_plan tiles;
    size_t block_tiles;                 /* tiles transformed at once */
    size_t partials;                    /* sums over ranges of tiles */
    size_t filter_parts, channel_parts; /* of each */
};
struct winograd_weights_plan winograd_weights_plan_of(const struct conv2d_shape *shape);

/* Scratch of all three passes. */
struct workspace_bytes winograd_workspace(const struct conv2d_shape *shape);

#endif
