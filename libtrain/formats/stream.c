#include "libtrain/formats/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/file.h"
#include "base/utf8.h"

struct gzip {
    z_stream z;
    bool member_done; /* the next byte, if any, starts another member */
    uint8_t buffer[STREAM_BUFFER_BYTES];
};

static void set_name(struct stream *stream, const char *name)
{
    (void)snprintf(stream->raw_name, sizeof(stream->raw_name), "%s", name);
    memcpy(stream->name, stream->raw_name, sizeof(stream->name));
    utf8_repair_line(stream->name);
}

/* ---- files ---- */

static int fill_from_file(struct stream *stream, void *out, size_t size, size_t *got,
                          struct err *err)
{
    uint64_t left = stream->size - stream->filled;
    *got = left < size ? (size_t)left : size;
    int rc = file_read_at(stream->fd, out, *got, stream->filled, err);
    return rc && err ? err_wrap(err, "%s", stream->name) : rc;
}

int stream_open_file(struct stream *stream, int fd, const char *name, struct err *err)
{
    struct stat status;
    *stream = (struct stream){.fill = fill_from_file, .fd = fd};
    set_name(stream, name);
    if (fstat(fd, &status)) {
        return err_set(err, err_from_errno(errno), "%s: %s", name, strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return err_set(err, ERR_INVALID, "%s: is not a regular file", name);
    }
    stream->size = (uint64_t)status.st_size;
    return 0;
}

/* ---- entries ---- */

static int fill_from_entry(struct stream *stream, void *out, size_t size, size_t *got,
                           struct err *err)
{
    uint64_t left = stream->size - stream->filled;
    size_t wanted = left < size ? (size_t)left : size;
    int rc = stream_read(stream->parent, out, wanted, got, err);
    stream->cut = stream->cut || *got < wanted;
    return rc;
}

void stream_open_entry(struct stream *stream, struct stream *parent, uint64_t size,
                       const char *name)
{
    *stream = (struct stream){.fill = fill_from_entry, .parent = parent, .size = size};
    set_name(stream, name);
}

/* ---- gzip ---- */

/* Refill zlib's input if it is empty. *ended: the parent stream has no more bytes. */
static int refill(struct stream *stream, bool *ended, struct err *err)
{
    struct gzip *gzip = stream->gzip;
    size_t got = 0;
    *ended = false;
    if (gzip->z.avail_in == 0) {
        int rc = stream_read(stream->parent, gzip->buffer, sizeof(gzip->buffer), &got, err);
        if (rc) {
            return rc;
        }
        gzip->z.next_in = gzip->buffer;
        gzip->z.avail_in = (unsigned)got;
        *ended = got == 0;
    }
    return 0;
}

static int expand_some(struct stream *stream, struct err *err)
{
    struct gzip *gzip = stream->gzip;
    if (gzip->member_done) {
        gzip->member_done = false;
        (void)inflateReset(&gzip->z);
    }
    int status = inflate(&gzip->z, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
        gzip->member_done = true;
        return 0;
    }
    if (status == Z_MEM_ERROR) {
        return err_set(err, ERR_MEMORY, "%s: no memory to expand it", stream->name);
    }
    if (status != Z_OK && status != Z_BUF_ERROR) {
        return err_set(err, ERR_FORMAT,
                       "%s: corrupt gzip data near byte %" PRIu64 " of what it expands to: %s",
                       stream->name, stream->filled, gzip->z.msg ? gzip->z.msg : "unknown");
    }
    return 0;
}

static int fill_from_gzip(struct stream *stream, void *out, size_t size, size_t *got,
                          struct err *err)
{
    struct gzip *gzip = stream->gzip;
    size_t wanted = size < UINT32_MAX ? size : UINT32_MAX;
    bool ended = false;
    *got = 0;
    gzip->z.next_out = out;
    gzip->z.avail_out = (unsigned)wanted;
    while (gzip->z.avail_out > 0) {
        int rc = refill(stream, &ended, err);
        if (rc || ended) {
            stream->cut = stream->cut || (ended && !gzip->member_done);
            *got = wanted - gzip->z.avail_out;
            return rc;
        }
        if ((rc = expand_some(stream, err))) {
            return rc;
        }
    }
    *got = wanted;
    return 0;
}

int stream_open_gzip(struct stream *stream, struct stream *parent, struct stream_watch *watch,
                     struct err *err)
{
    *stream = (struct stream){
        .fill = fill_from_gzip, .parent = parent, .watch = watch, .size = STREAM_SIZE_UNKNOWN};
    set_name(stream, parent->raw_name);
    struct gzip *gzip = calloc(1, sizeof(*gzip));
    /* 15: the largest window; + 16: a gzip header and nothing else. */
    if (!gzip || inflateInit2(&gzip->z, 15 + 16) != Z_OK) {
        free(gzip);
        return err_set(err, ERR_MEMORY, "%s: no memory to expand it", parent->name);
    }
    stream->gzip = gzip;
    return 0;
}

bool stream_is_gzip(const uint8_t *bytes, size_t size)
{
    return size >= 3 && bytes[0] == 0x1F && bytes[1] == 0x8B && bytes[2] == 8;
}

void stream_done(struct stream *stream)
{
    if (stream->gzip) {
        (void)inflateEnd(&stream->gzip->z);
        free(stream->gzip);
        stream->gzip = NULL;
    }
}

/* ---- reading ---- */

static int look_after(struct stream *stream, size_t more, struct err *err)
{
    struct stream_watch *watch = stream->watch;
    if (stream->gzip) {
        watch->expanded += more;
        if (watch->expanded > watch->expanded_max) {
            return err_set(err, ERR_LIMIT,
                           "%s: expands to more than %" PRIu64
                           " bytes, with what was read before it",
                           stream->name, watch->expanded_max);
        }
    }
    return watch->go_on ? watch->go_on(watch->go_on_arg, err) : 0;
}

/* Read from the source until `size` bytes are read or the source ends. */
static int fill(struct stream *stream, uint8_t *out, size_t size, size_t *got, struct err *err)
{
    *got = 0;
    while (*got < size) {
        size_t more = 0;
        int rc = stream->fill(stream, out + *got, size - *got, &more, err);
        rc = rc == 0 && stream->watch ? look_after(stream, more, err) : rc;
        if (rc) {
            return rc;
        }
        if (more == 0) {
            return 0;
        }
        *got += more;
        stream->filled += more;
    }
    return 0;
}

int stream_read(struct stream *stream, void *out, size_t size, size_t *got, struct err *err)
{
    size_t kept = stream->peek_end - stream->peek_first;
    size_t first = kept < size ? kept : size;
    size_t rest = 0;
    memcpy(out, stream->peeked + stream->peek_first, first);
    stream->peek_first += first;
    int rc = first < size ? fill(stream, (uint8_t *)out + first, size - first, &rest, err) : 0;
    *got = first + rest;
    stream->position += *got;
    return rc;
}

int stream_ends_early(const struct stream *stream, const char *what, uint64_t missing,
                      struct err *err)
{
    return err_set(err, ERR_FORMAT, "%s: %s %" PRIu64 " bytes early, at byte %" PRIu64 "%s",
                   stream->name, what, missing, stream->position,
                   stream->cut ? " (the file is truncated)" : "");
}

int stream_read_all(struct stream *stream, void *out, size_t size, const char *what,
                    struct err *err)
{
    size_t got = 0;
    int rc = stream_read(stream, out, size, &got, err);
    return rc || got == size ? rc : stream_ends_early(stream, what, size - got, err);
}

int stream_skip(struct stream *stream, uint64_t size, const char *what, struct err *err)
{
    uint8_t buffer[16384];
    while (size > 0) {
        size_t wanted = size < sizeof(buffer) ? (size_t)size : sizeof(buffer);
        size_t got = 0;
        int rc = stream_read(stream, buffer, wanted, &got, err);
        if (rc) {
            return rc;
        }
        size -= got;
        if (got < wanted) {
            return stream_ends_early(stream, what, size, err);
        }
    }
    return 0;
}

int stream_peek(struct stream *stream, const uint8_t **out, size_t *size, struct err *err)
{
    size_t kept = stream->peek_end - stream->peek_first;
    size_t got = 0;
    memmove(stream->peeked, stream->peeked + stream->peek_first, kept);
    stream->peek_first = 0;
    stream->peek_end = kept;
    int rc = fill(stream, stream->peeked + kept, STREAM_PEEK_MAX - kept, &got, err);
    stream->peek_end += got;
    *out = stream->peeked;
    *size = stream->peek_end;
    return rc;
}

int stream_finish(struct stream *stream, struct err *err)
{
    uint8_t byte;
    size_t got = 0;
    int rc = stream_read(stream, &byte, 1, &got, err);
    if (rc) {
        return rc;
    }
    if (got > 0) {
        return err_set(err, ERR_FORMAT,
                       "%s: has more bytes than its header says, from byte %" PRIu64 " on",
                       stream->name, stream->position - 1);
    }
    if (stream->cut && stream->size != STREAM_SIZE_UNKNOWN) {
        return stream_ends_early(stream, "the content ends", stream->size - stream->filled, err);
    }
    return stream->cut ? err_set(err, ERR_FORMAT, "%s: is truncated", stream->name) : 0;
}
