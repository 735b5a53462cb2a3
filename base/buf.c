#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

#define FIRST_CAPACITY 256

void buf_init(struct buf *buf, size_t limit)
{
    *buf = (struct buf){.limit = limit};
}

void buf_done(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){.limit = buf->limit};
}

void buf_clear(struct buf *buf)
{
    buf->size = 0;
    if (buf->data) {
        buf->data[0] = '\0';
    }
}

/* Make room for `size` more bytes and the NUL after them. */
static int make_room(struct buf *buf, size_t size, struct err *err)
{
    size_t needed;
    if (!size_add(buf->size, size, &needed) || needed > buf->limit || needed == SIZE_MAX) {
        return err_set(err, ERR_LIMIT, "more than %zu bytes", buf->limit);
    }
    if (needed < buf->capacity) {
        return 0;
    }
    size_t capacity = buf->capacity ? buf->capacity : FIRST_CAPACITY;
    while (capacity <= needed) {
        if (!size_multiply(capacity, 2, &capacity)) {
            capacity = SIZE_MAX;
        }
    }
    /* The doubling stops at the limit: a full buffer is not twice as large as it may ever be. */
    if (capacity - 1 > buf->limit) {
        capacity = buf->limit + 1;
    }
    char *data = realloc(buf->data, capacity);
    if (!data) {
        return err_set(err, ERR_MEMORY, "no memory for a buffer of %zu bytes", capacity);
    }
    buf->data = data;
    buf->capacity = capacity;
    buf->data[buf->size] = '\0';
    return 0;
}

int buf_append(struct buf *buf, const void *data, size_t size, struct err *err)
{
    int rc = make_room(buf, size, err);
    if (rc) {
        return rc;
    }
    if (size > 0) {
        memcpy(buf->data + buf->size, data, size);
    }
    buf->size += size;
    buf->data[buf->size] = '\0';
    return 0;
}

int buf_printf(struct buf *buf, struct err *err, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        return err_set(err, ERR_INVALID, "cannot format text with '%s'", format);
    }
    int rc = make_room(buf, (size_t)length, err);
    if (rc) {
        return rc;
    }
    va_start(arguments, format);
    (void)vsnprintf(buf->data + buf->size, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buf->size += (size_t)length;
    return 0;
}

char *buf_reserve(struct buf *buf, size_t size, struct err *err)
{
    return make_room(buf, size, err) ? NULL : buf->data + buf->size;
}
