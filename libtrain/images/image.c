#include "libtrain/images/image.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/images/pixels.h"
#include "libtrain/images/resize.h"

struct image_reader {
    struct image_size size;
    uint32_t channels;
    struct pixels pixels; /* of the original image */
    struct resize resize;
};

bool image_recognise(const uint8_t *bytes, size_t size)
{
    return jpeg_recognise(bytes, size) || png_recognise(bytes, size);
}

static int decode(const uint8_t *bytes, size_t size, uint32_t channels, struct image_size *out,
                  struct pixels *pixels, struct err *err)
{
    if (jpeg_recognise(bytes, size)) {
        return jpeg_decode(bytes, size, channels, out, pixels, err);
    }
    if (png_recognise(bytes, size)) {
        return png_decode(bytes, size, channels, out, pixels, err);
    }
    return err_set(err, ERR_FORMAT, "is neither JPEG nor PNG");
}

int image_measure(const uint8_t *bytes, size_t size, struct image_size *out, struct err *err)
{
    return decode(bytes, size, 0, out, NULL, err);
}

int image_reader_new(struct image_size size, uint32_t channels, struct image_reader **out,
                     struct err *err)
{
    ASSERT(channels == 1 || channels == 3);
    int rc = image_check_size(size.h, size.w, err);
    if (rc) {
        return rc;
    }
    struct image_reader *reader = calloc(1, sizeof(*reader));
    if (!reader) {
        return err_set(err, ERR_MEMORY, "no memory to read images");
    }
    reader->size = size;
    reader->channels = channels;
    *out = reader;
    return 0;
}

void image_reader_free(struct image_reader **reader)
{
    if (*reader) {
        pixels_done(&(*reader)->pixels);
        resize_done(&(*reader)->resize);
        free(*reader);
        *reader = NULL;
    }
}

int image_read(struct image_reader *reader, const uint8_t *bytes, size_t size, uint8_t *out,
               struct err *err)
{
    const struct image_size wanted = reader->size;
    struct pixels *pixels = &reader->pixels;
    struct image_size found = {0};
    int rc = decode(bytes, size, reader->channels, &found, pixels, err);
    if (rc) {
        return rc;
    }
    if (found.h == wanted.h && found.w == wanted.w) {
        memcpy(out, pixels->data, (size_t)wanted.h * wanted.w * reader->channels);
        return 0;
    }
    if (wanted.h > IMAGE_RESIZED_SIDE_MAX || wanted.w > IMAGE_RESIZED_SIDE_MAX) {
        return err_set(err, ERR_LIMIT,
                       "resizing to %" PRIu32 " x %" PRIu32 " pixels: at most %d on a side",
                       wanted.h, wanted.w, IMAGE_RESIZED_SIDE_MAX);
    }
    return resize_run(&reader->resize, pixels, wanted, out, err);
}
