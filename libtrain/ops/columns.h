/* columns.h: im2col, the matrix of a convolution's windows, and its transpose col2im, a block at a
 * time. Used by conv2d.c. A row belongs to one output pixel m = (n OH + oh) OW + ow. For the kernel
 * positions [first, end) (position kh KW + kw) and the channels [channel, channel + channels) it
 * holds the input under the window. */
#ifndef LIBTRAIN_OPS_COLUMNS_H
#define LIBTRAIN_OPS_COLUMNS_H

#include "libtrain/kernels/workspace.h"

struct columns_block {
    size_t position_first, position_end;
    size_t channel, channels;
};

/* columns[pixels][(position_end - position_first) * channels] from x [N][H][W][C], pixels [m, m +
 * pixels). Zero outside the input. Overwrites. */
void columns_gather(const struct conv2d_shape *shape, const struct columns_block *block, size_t m,
                    size_t pixels, const float *x, float *columns);

/* dx += columns, scattered back: accumulates. All positions of the kernel; channels as in the
 * block. */
void columns_scatter(const struct conv2d_shape *shape, const struct columns_block *block, size_t m,
                     size_t pixels, const float *columns, float *dx);

#endif
