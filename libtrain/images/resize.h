/* resize.h: resizes images of bytes. Each output pixel is the mean of the input under a triangle.
 * The triangle reaches one output pixel to each side (one input pixel when the image grows). Rows
 * first, then columns, rounded to bytes after each. Weights are integers (units of 2^-22), so every
 * machine computes the same. Equal to Pillow's BILINEAR and torchvision's Resize with antialias.
 * Private to libtrain/images; one thread. */
#ifndef LIBTRAIN_IMAGES_RESIZE_H
#define LIBTRAIN_IMAGES_RESIZE_H

#include "libtrain/images/pixels.h"

/* One direction: output i is the sum of weight[i][k] * input[first[i] + k], k < count[i]. */
struct resize_axis {
    uint32_t from, to; /* the lengths that the rest was computed for; 0: none yet */
    size_t taps;       /* of an output, at most */
    uint32_t *first, *count;
    int32_t *weight;
};

/* Zeroed before the first use; reused for images of the same size. */
struct resize {
    struct resize_axis row, column;
    struct pixels narrow; /* with the new width and the old height */
};

void resize_done(struct resize *resize);
/* Resize `from` to out [h][w][from->c]. ERR_MEMORY. */
NODISCARD int resize_run(struct resize *resize, const struct pixels *from, struct image_size to,
                         uint8_t *out, struct err *err);

#endif
