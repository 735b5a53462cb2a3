/* image.h: JPEG and PNG images, whole in memory, turned into plain pixels of one size: height x
 * width x channels bytes. For libtrain/formats. No files, no clocks; any thread, a reader by one at
 * a time.
 *
 * What comes from outside is not believed: sides and pixels are bounded before anything is decoded,
 * progressive scans and text chunks are counted, what the decoders would report and go on from (a
 * cut file, damaged data) is an error. The decoders' error handlers come back here; nothing of them
 * prints or exits.
 *
 * Pixels: 8 bits a channel; 16 bits are rounded, palettes looked up, transparency and a turn stated
 * in EXIF ignored. Three channels are R, G, B, the same number three times for a grey image. One
 * channel is a JPEG's luminance, and (19595 R + 38470 G + 7471 B) / 65536, rounded, of a PNG's
 * colours, which is the same formula (ITU-R BT.601). */
#ifndef LIBTRAIN_IMAGES_IMAGE_H
#define LIBTRAIN_IMAGES_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define IMAGE_SIDE_MAX 16384
#define IMAGE_PIXELS_MAX (1u << 25) /* 33.5 million: the decoders may take 6 bytes for each */
#define IMAGE_RESIZED_SIDE_MAX 1024 /* of what an image is resized to */
#define IMAGE_FILE_BYTES_MAX (64u << 20)

struct image_size {
    uint32_t h, w;
};

/* By the first 8 bytes. */
bool image_recognise(const uint8_t *bytes, size_t size);

/* How large an image is, from its header. ERR_FORMAT for what is neither JPEG nor PNG or is
 * damaged, ERR_LIMIT for more than the bounds above, ERR_UNSUPPORTED for colours that are not read
 * (CMYK). */
NODISCARD int image_measure(const uint8_t *bytes, size_t size, struct image_size *out,
                            struct err *err);

/* Decodes image after image; its memory grows to what the largest needs. */
struct image_reader;
/* channels: 1 or 3. */
NODISCARD int image_reader_new(struct image_size size, uint32_t channels, struct image_reader **out,
                               struct err *err);
void image_reader_free(struct image_reader **reader);
/* Decode an image and resize it where it has another size, by a triangle filter (bilinear, with
 * antialiasing where it gets smaller; resize.h); its proportions are not kept. A size above
 * IMAGE_RESIZED_SIDE_MAX is for images that have it: ERR_LIMIT else. out [h][w][channels] is
 * undefined on failure. Errors as image_measure; ERR_MEMORY. */
NODISCARD int image_read(struct image_reader *reader, const uint8_t *bytes, size_t size,
                         uint8_t *out, struct err *err);

#endif
