/* resize.h: images of bytes to another size: each output pixel is the mean of the input under a
 * triangle that reaches one output pixel to each side, or one input pixel where the image gets
 * larger. First along rows, then along columns, rounded to bytes behind each; weights are whole
 * numbers (of 2^-22), so that every machine computes the same. It is what Pillow's BILINEAR and
 * torchvision's Resize with antialias do. Private to libtrain/images; one thread. */
#ifndef LIBTRAIN_IMAGES_RESIZE_H
#define LIBTRAIN_IMAGES_RESIZE_H

#include "libtrain/images/pixels.h"

/* Of one direction: output i is the sum of weight[i][k] * input[first[i] + k], k < count[i]. */
struct resize_axis {
    uint32_t from, to; /* lengths that the rest was computed for; 0: none yet */
    size_t taps;       /* of an output, at most */
    uint32_t *first, *count;
    int32_t *weight;
};

/* Zeroed before the first use; kept for images of the same size. */
struct resize {
    struct resize_axis row, column;
    struct pixels narrow; /* of the wanted width and the old height */
};

void resize_done(struct resize *resize);
/* out [h][w][from->c]. ERR_MEMORY. */
NODISCARD int resize_run(struct resize *resize, const struct pixels *from, struct image_size to,
                         uint8_t *out, struct err *err);

#endif
