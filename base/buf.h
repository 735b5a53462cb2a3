/* buf.h: a growing byte buffer for text and small bodies. Not for tensors (those are planned
 * arenas). One owner, one thread. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>

#include "base/err.h"

struct buf {
    char *data;  /* data[size] is NUL whenever data is not NULL */
    size_t size; /* bytes in use, without the NUL */
    size_t capacity;
    size_t limit; /* never grows beyond this many bytes */
};

void buf_init(struct buf *buf, size_t limit);
void buf_done(struct buf *buf);
#define BUF_AUTO AUTO(buf_done)
/* Forget the content, keep the memory. */
void buf_clear(struct buf *buf);
/* Append bytes. ERR_LIMIT over the limit, ERR_MEMORY. On failure the content is unchanged. */
NODISCARD int buf_append(struct buf *buf, const void *data, size_t size, struct err *err);
NODISCARD int buf_printf(struct buf *buf, struct err *err, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* Make room for at least `size` more bytes and return their place; add the written bytes to
 * buf->size. NULL: err says why. */
char *buf_reserve(struct buf *buf, size_t size, struct err *err);

#endif
