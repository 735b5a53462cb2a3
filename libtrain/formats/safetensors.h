/* safetensors.h: the one tensor format of snapshots, checkpoints, exports, data sets and tensors on
 * the wire: an 8-byte little-endian header length, a JSON header, raw little-endian data. Nothing
 * here allocates, so that peers can read a header per message. Pure; any thread. Source: the
 * safetensors format, https://github.com/huggingface/safetensors (format section). */
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
    uint64_t begin, end; /* bytes within the data, which starts behind the header */
};

struct safetensors_metadata {
    char key[SAFETENSORS_KEY_MAX];
    char value[SAFETENSORS_VALUE_MAX];
    const char *long_value; /* one that needs more room than `value` has: borrowed, NUL-terminated;
                               else NULL */
};

/* A header; `tensor` is the caller's array of `tensor_capacity` elements. `text` is the caller's,
 * too: where a header that is read has its long values; what finds no room there is read over, and
 * its value is "". */
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

/* How long a header is: reads the first 8 bytes of a file. ERR_FORMAT when it claims more than
 * SAFETENSORS_HEADER_MAX, or is one of PyTorch. *out_bytes counts the 8 too. */
NODISCARD int safetensors_header_bytes(const uint8_t prefix[8], uint64_t *out_bytes,
                                       struct err *err);

/* Read a whole header (`size` = data_offset bytes). Tensors are returned in the order of their
 * offsets. Refused: overlaps and holes, offsets that disagree with dtype x shape, duplicate names,
 * more tensors than tensor_capacity (ERR_LIMIT), unknown dtypes, anything that is not the format's
 * subset of JSON. */
NODISCARD int safetensors_parse(const void *bytes, size_t size, struct safetensors_header *header,
                                struct err *err);

/* Write a header for header->tensor[0..tensor_count) in that order; begin/end are computed from
 * dtype and shape and stored, as are data_offset and data_bytes. Padded with spaces so that
 * data_offset is a multiple of 64 (SIMD loads from a mapped file). Same input, same bytes.
 * *out_size = bytes written (= data_offset); ERR_LIMIT when `capacity` is too small. */
NODISCARD int safetensors_write(struct safetensors_header *header, char *out, size_t capacity,
                                size_t *out_size, struct err *err);

/* The tensor of that name, or NULL. Borrowed from the header. */
const struct safetensors_tensor *safetensors_find(const struct safetensors_header *header,
                                                  const char *name);
/* The metadata value, or NULL. */
const char *safetensors_metadata(const struct safetensors_header *header, const char *key);

#endif
