/* pixels.h: a decoded image, and the functions of each decoder. Private to libtrain/images. */
#ifndef LIBTRAIN_IMAGES_PIXELS_H
#define LIBTRAIN_IMAGES_PIXELS_H

#include "libtrain/images/image.h"

/* [h][w][c] in memory that grows; zeroed before the first use. */
struct pixels {
    uint32_t h, w, c;
    uint8_t *data;
    size_t capacity;
};

/* Resize the buffer; its contents are lost. */
NODISCARD int pixels_shape(struct pixels *pixels, uint32_t h, uint32_t w, uint32_t c,
                           struct err *err);
void pixels_done(struct pixels *pixels);
/* R, G, B to one channel, in place. */
void pixels_to_grey(struct pixels *pixels);

/* The bounds of image.h. */
NODISCARD int image_check_size(uint64_t h, uint64_t w, struct err *err);

bool jpeg_recognise(const uint8_t *bytes, size_t size);
bool png_recognise(const uint8_t *bytes, size_t size);
/* As image_measure; with `pixels` decode as well, to `channels` (1 or 3) of them. */
NODISCARD int jpeg_decode(const uint8_t *bytes, size_t size, uint32_t channels,
                          struct image_size *out, struct pixels *pixels, struct err *err);
NODISCARD int png_decode(const uint8_t *bytes, size_t size, uint32_t channels,
                         struct image_size *out, struct pixels *pixels, struct err *err);

#endif
