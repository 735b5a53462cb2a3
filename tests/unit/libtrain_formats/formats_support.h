/* formats_support.h: files in memory and results of dataset_convert, for the tests of
 * libtrain/formats. One thread. */
#ifndef TESTS_UNIT_LIBTRAIN_FORMATS_SUPPORT_H
#define TESTS_UNIT_LIBTRAIN_FORMATS_SUPPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "libtrain/formats/dataset.h"

/* Bytes of a file being put together. */
struct bytes {
    uint8_t data[1 << 16];
    size_t size;
};

void put(struct bytes *bytes, const void *data, size_t size);
void put_zeros(struct bytes *bytes, size_t size);
/* The IDX header of unsigned bytes. */
void put_idx_header(struct bytes *bytes, const uint32_t *dim, size_t rank);
/* IDX of `count` images of h x w, whose bytes count up from 0. */
void put_idx_images(struct bytes *bytes, uint32_t count, uint32_t h, uint32_t w);
/* IDX of labels 0, 1, 2, 0, 1 ... */
void put_idx_labels(struct bytes *bytes, uint32_t count);
/* A whole NPY file of version 1. */
void put_npy(struct bytes *bytes, const char *dictionary, const void *data, size_t size);
/* A CIFAR-10 record whose byte i of plane p is p * 50 + i % 50. */
void put_cifar_record(struct bytes *bytes, uint8_t label);
/* A whole WAV file; format 1 is PCM, 3 floats. */
void put_wav(struct bytes *bytes, unsigned format, unsigned channels, unsigned rate, unsigned bits,
             const void *data, size_t size);
/* A tar entry; type '0' is a file. */
void put_tar_entry(struct bytes *bytes, const char *name, char type, const void *data, size_t size);
void put_tar_end(struct bytes *bytes);
/* Replace the content by its gzip form. */
void compress_gzip(struct bytes *bytes);

/* A file that holds the bytes; the caller closes it. */
int memory_file(const struct bytes *bytes);

/* A converted data set: its bytes and its info. */
struct converted {
    struct dataset_info info;
    struct buf file;
};

/* Convert one or two contents (`second` may be NULL); with the limits 1 MiB and 8 entries. */
int convert(const struct bytes *first, const struct bytes *second, struct converted *out,
            struct err *err);
void converted_done(struct converted *converted);
/* The same, and it must work: the result is checked by dataset_read_info as well. */
void convert_ok(const struct bytes *first, const struct bytes *second, struct converted *out);
/* It must fail with this code and a text that holds `part`. */
void convert_fails(const struct bytes *first, const struct bytes *second, int code,
                   const char *part);

/* Label number `index` of a result, of all samples and positions. */
int32_t label_of(const struct converted *converted, size_t index);
const uint8_t *inputs_of(const struct converted *converted);

#endif
