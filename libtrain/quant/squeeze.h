/* squeeze.h: zstd, behind two calls that allocate nothing. Private to libtrain/quant; a build
 * without zstd has squeeze_none.c, which is never asked (codec_available). */
#ifndef LIBTRAIN_QUANT_SQUEEZE_H
#define LIBTRAIN_QUANT_SQUEEZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct squeeze;

/* Work space of both directions: CODEC_ZSTD_BYTES at `memory`, of malloc's alignment. It lives
 * there. */
NODISCARD int squeeze_new(void *memory, struct squeeze **out, struct err *err);
/* Compress at level 1 to out[capacity]. Returns the bytes written; 0: they do not fit. */
size_t squeeze_pack(struct squeeze *squeeze, const void *in, size_t size, void *out,
                    size_t capacity);
/* Decompress one frame that must have exactly `size` bytes to out[size]. False: it has not. */
bool squeeze_unpack(struct squeeze *squeeze, const void *in, size_t in_size, void *out,
                    size_t size);

#endif
