/* JPEG and PNG: measured, decoded to one and to three channels, in the original size and resized.
 * The images of tests/golden are its first inputs. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/images/image.h"

#define PIXELS_MAX (1u << 20) /* larger images decode the same way, at a second each */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whether it was read. All of the sample is written then: two readings over other bytes are the
 * same. */
static bool read_image(const uint8_t *data, size_t size, struct image_size wanted,
                       uint32_t channels)
{
    const size_t bytes = (size_t)wanted.h * wanted.w * channels;
    struct image_reader *reader = NULL;
    struct err err = {0};
    uint8_t *out = malloc(2 * bytes);
    ASSERT(out && image_reader_new(wanted, channels, &reader, &err) == 0);
    memset(out, 0x55, bytes);
    memset(out + bytes, 0xAA, bytes);
    const int rc = image_read(reader, data, size, out, &err);
    ASSERT(rc == err.code && (rc == 0 || err.text[0] != '\0'));
    if (rc == 0) {
        ASSERT(image_read(reader, data, size, out + bytes, &err) == 0);
        ASSERT(memcmp(out, out + bytes, bytes) == 0);
    }
    image_reader_free(&reader);
    free(out);
    return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_size found;
    struct err err = {0};
    const int rc = image_measure(data, size, &found, &err);
    ASSERT(rc == err.code && (rc == 0 || err.text[0] != '\0'));
    if (rc != 0 || (uint64_t)found.h * found.w > PIXELS_MAX) {
        return 0;
    }
    ASSERT(found.h > 0 && found.w > 0 && image_recognise(data, size));
    const bool grey = read_image(data, size, found, 1);
    ASSERT(read_image(data, size, found, 3) == grey);
    ASSERT(read_image(data, size, (struct image_size){5, 9}, 3) == grey);
    return 0;
}
