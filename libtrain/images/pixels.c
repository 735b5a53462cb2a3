#include "libtrain/images/pixels.h"

#include <inttypes.h>
#include <stdlib.h>

int pixels_shape(struct pixels *pixels, uint32_t h, uint32_t w, uint32_t c, struct err *err)
{
    const size_t bytes = (size_t)h * w * c;
    if (bytes > pixels->capacity) {
        free(pixels->data);
        pixels->capacity = 0;
        pixels->data = malloc(bytes);
        if (!pixels->data) {
            return err_set(err, ERR_MEMORY, "no memory for %" PRIu32 " x %" PRIu32 " pixels", h, w);
        }
        pixels->capacity = bytes;
    }
    pixels->h = h;
    pixels->w = w;
    pixels->c = c;
    return 0;
}

void pixels_done(struct pixels *pixels)
{
    free(pixels->data);
    *pixels = (struct pixels){0};
}

void pixels_to_grey(struct pixels *pixels)
{
    const size_t count = (size_t)pixels->h * pixels->w;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *rgb = pixels->data + 3 * i;
        pixels->data[i] =
            (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
    }
    pixels->c = 1;
}

int image_check_size(uint64_t h, uint64_t w, struct err *err)
{
    if (h == 0 || w == 0) {
        return err_set(err, ERR_FORMAT, "has no pixels");
    }
    if (h > IMAGE_SIDE_MAX || w > IMAGE_SIDE_MAX || h * w > IMAGE_PIXELS_MAX) {
        return err_set(err, ERR_LIMIT,
                       "has %" PRIu64 " x %" PRIu64 " pixels; at most %u in all, and %d on a side",
                       h, w, IMAGE_PIXELS_MAX, IMAGE_SIDE_MAX);
    }
    return 0;
}
