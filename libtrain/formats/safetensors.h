/* safetensors.h: the tensor format of snapshots, checkpoints, exports, data sets and tensors on the
 * wire: an 8-byte little-endian header length, a JSON header, raw little-endian data. Nothing here
 * allocates, so that peers can read a header per message. Pure; any thread. Source: the safetensors
 * format, https://github.com/huggingface/safetensors (format section). */
#ifndef LIBTRAIN_FORMATS_SAFETENSORS_H
#define LIBTRAIN_FORMATS_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/formats/dtype.h"

#define SAFETENSORS_NAME_MAX 128
#define SAFETENSORS_RANK_MAX 8
#define SAFETENSORS_METADATA_MAX 8
#define SAFETENSORS_KEY_MAX 32
#define SAFETENSORS_VALUE_MAX 96
#define SAFETENSORS_HEADER_MAX (8u << 20)

struct safetensors_tensor {
    char name[SAFETENSORS_NAME_MAX];
    enum dtype dtype;
    size_t rank;
    uint64_t dim[SAFETENSORS_RANK_MAX];
    uint64_t begin, end; /* bytes within the data, which follows the header */
};

struct safetensors_metadata {
    char key[SAFETENSORS_KEY_MAX];
    char value[SAFETENSORS_VALUE_MAX];
    const char *long_value; /* a value longer than `value`: borrowed, NUL-terminated; else NULL */
};

/* A header. The caller provides `tensor`, of `tensor_capacity` elements, and `text`, which takes
 * long values when a header is read. A long value that does not fit is skipped, and reads as "". */
struct safetensors_header {
    struct safetensors_tensor *tensor;
    size_t tensor_capacity;
    size_t tensor_count;
    char *text;
    size_t text_capacity;
    struct safetensors_metadata metadata[SAFETENSORS_METADATA_MAX];
    size_t metadata_count;
    uint64_t data_offset; /* 8 + header length: where the data starts in the file */
    uint64_t data_bytes;
};

/* Return the size of a header from the first 8 bytes of a file, which it counts too. ERR_FORMAT if
 * it claims more than SAFETENSORS_HEADER_MAX, or the file is one of PyTorch. */
NODISCARD int safetensors_header_bytes(const uint8_t prefix[8], uint64_t *out_bytes,
                                       struct err *err);

/* Parse a whole header (`size` = data_offset bytes). Tensors are returned ordered by offset.
 * Rejects overlaps and gaps, offsets that disagree with dtype x shape, duplicate names, more
 * tensors than tensor_capacity (ERR_LIMIT), unknown dtypes, and anything outside the format's
 * subset of JSON. */
NODISCARD int safetensors_parse(const void *bytes, size_t size, struct safetensors_header *header,
                                struct err *err);

/* Write a header for header->tensor[0..tensor_count) in that order. Computes begin and end from
 * dtype and shape, and sets data_offset and data_bytes. Padded with spaces so that data_offset is a
 * multiple of 64 (SIMD loads from a mapped file). The same input gives the same bytes. *out_size =
 * bytes written (= data_offset); ERR_LIMIT if `capacity` is too small. */
NODISCARD int safetensors_write(struct safetensors_header *header, char *out, size_t capacity,
                                size_t *out_size, struct err *err);

/* Find a tensor by name, or NULL. Borrowed from the header. */
const struct safetensors_tensor *safetensors_find(const struct safetensors_header *header,
                                                  const char *name);
/* Find a metadata value, or NULL. */
const char *safetensors_metadata(const struct safetensors_header *header, const char *key);

#endif
