/* image.h: decodes JPEG and PNG images, held in memory, to pixels of one size: height x width x
 * channels bytes. For libtrain/formats. No files, no clocks; any thread, a reader by one at a time.
 *
 * Input is not trusted. Sides and pixels are bounded before anything is decoded; progressive scans
 * and text chunks are counted; warnings of the decoders (truncated files, damaged data) are errors.
 * The decoders' error handlers return here: none prints or exits.
 *
 * Pixels have 8 bits per channel. 16 bits are rounded, palettes looked up; transparency and EXIF
 * rotation are ignored. Three channels are R, G, B, with equal values for a grey image. One channel
 * is a JPEG's luminance, or of a PNG's colours (19595 R + 38470 G + 7471 B) / 65536, rounded, the
 * same formula (ITU-R BT.601). */
#ifndef LIBTRAIN_IMAGES_IMAGE_H
#define LIBTRAIN_IMAGES_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define IMAGE_SIDE_MAX 16384
#define IMAGE_PIXELS_MAX (1u << 25) /* 33.5 million: the decoders may take 6 bytes for each */
#define IMAGE_RESIZED_SIDE_MAX 1024 /* largest side of a resized image */
#define IMAGE_FILE_BYTES_MAX (64u << 20)

struct image_size {
    uint32_t h, w;
};

/* Whether the first 8 bytes are those of a known format. */
bool image_recognise(const uint8_t *bytes, size_t size);

/* Read the size of an image from its header. ERR_FORMAT for a file that is neither JPEG nor PNG, or
 * is damaged; ERR_LIMIT above the bounds; ERR_UNSUPPORTED for unsupported colours (CMYK). */
NODISCARD int image_measure(const uint8_t *bytes, size_t size, struct image_size *out,
                            struct err *err);

/* Decodes one image after the other. Its memory grows to the needs of the largest. */
struct image_reader;
/* channels: 1 or 3. */
NODISCARD int image_reader_new(struct image_size size, uint32_t channels, struct image_reader **out,
                               struct err *err);
void image_reader_free(struct image_reader **reader);
/* Decode an image. If it has another size, resize it by a triangle filter (bilinear, with
 * antialiasing when it shrinks; resize.h); its proportions are not kept. Sizes above
 * IMAGE_RESIZED_SIDE_MAX are never a target of resizing: ERR_LIMIT. out [h][w][channels] is
 * undefined on failure. Errors as image_measure; ERR_MEMORY. */
NODISCARD int image_read(struct image_reader *reader, const uint8_t *bytes, size_t size,
                         uint8_t *out, struct err *err);

#endif
