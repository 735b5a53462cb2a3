/* images_support.h: an archive of images that a test fills entry by entry and then converts. The
 * images are those of tests/golden/images. One thread. */
#ifndef TESTS_UNIT_LIBTRAIN_FORMATS_IMAGES_SUPPORT_H
#define TESTS_UNIT_LIBTRAIN_FORMATS_IMAGES_SUPPORT_H

#include "tests/unit/libtrain_formats/formats_support.h"

#define PIXELS (17 * 22) /* of an image of tests/golden/images */

extern struct bytes archive;                      /* too large for a stack */
extern const struct dataset_limits labelled_only; /* every image needs a class */

/* dataset_convert writes with it; arg is a struct buf. */
int append_bytes(void *arg, const void *data, size_t size, struct err *err);
/* A whole image file; the caller ends *out with buf_done. */
void load_image(const char *name, struct buf *out);
/* Append an entry with the first `size` bytes of an image; 0: all of them. */
void put_image(const char *entry, const char *image, size_t size);

/* Convert the archive. text: the parameters of an upload, or NULL. */
int convert_archive(const char *text, struct converted *out, struct err *err);
/* End the archive, convert it and empty it. */
void runs(const char *text, struct converted *out);
/* The same, but the conversion must fail with `code` and a text that holds `part`. */
void fails(const char *text, int code, const char *part);

#endif
