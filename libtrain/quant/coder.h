/* coder.h: encodes float32 tensors as bytes and decodes them. A coder belongs to one thread and one
 * direction; only coder_new allocates memory.
 *
 * Coded form of n values with codec q8 to q2: a table with two little-endian float32 (lo, scale)
 * for each group of 256 values, the last group may be short; then the codes of one group after the
 * other, each group from a byte on, the lowest bit first. scale -1 (with lo 0) in the table: the
 * group is sent raw, with its values instead of codes. bfloat16: the upper halves of the values,
 * rounded to nearest even. With +zstd all bytes after the table may be one zstd frame instead,
 * namely if there are fewer bytes than the table requires. */
#ifndef LIBTRAIN_QUANT_CODER_H
#define LIBTRAIN_QUANT_CODER_H

#include <stddef.h>

#include "base/err.h"
#include "libtrain/quant/codec.h"

/* Gradients are coded symmetrically about 0; activations by the range of each group. */
enum coder_data { CODER_ACTIVATION, CODER_GRADIENT };

struct coder;

/* Create a coder for tensors of up to values_max values. It allocates codec_memory bytes.
 * ERR_MEMORY; ERR_INVALID if this build does not have the codec. */
NODISCARD int coder_new(enum codec codec, size_t values_max, struct coder **out, struct err *err);
void coder_free(struct coder **coder);
enum codec coder_codec(const struct coder *coder);

/* The coder's buffer, of codec_bytes_max(codec, values_max) bytes: encode writes it, decode reads
 * it. */
unsigned char *coder_buffer(struct coder *coder);
/* Encode x[n] into the buffer. Returns the size, at most codec_bytes_max(codec, n). */
size_t coder_encode(struct coder *coder, enum coder_data data, const float *x, size_t n);
/* Decode the buffer's first `size` bytes to x[n]. ERR_FORMAT: they are not n values of this codec;
 * x is undefined then. Bytes from anywhere are safe. */
NODISCARD int coder_decode(struct coder *coder, size_t size, float *x, size_t n, struct err *err);

#endif
