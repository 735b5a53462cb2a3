/* stream.h: bytes read once, front to back: a file, the expansion of a gzip file, one entry of an
 * archive. A stream can look ahead, so that a format can be recognised by its first bytes. Private
 * to libtrain/formats. One thread; memory is bounded by a few buffers of STREAM_BUFFER_BYTES. */
#ifndef LIBTRAIN_FORMATS_STREAM_H
#define LIBTRAIN_FORMATS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define STREAM_NAME_MAX 272
#define STREAM_PEEK_MAX 512
#define STREAM_BUFFER_BYTES 65536
#define STREAM_SIZE_UNKNOWN UINT64_MAX

struct gzip;

/* The expansion of all compressed streams of a source, and a callback that may end the reading. */
struct stream_watch {
    uint64_t expanded, expanded_max;          /* bytes */
    int (*go_on)(void *arg, struct err *err); /* NULL: none */
    void *go_on_arg;
};

/* In the caller's storage; must not be moved while another stream reads from it. */
struct stream {
    char name[STREAM_NAME_MAX];     /* for errors: "file 2", "train-images"; one line of UTF-8 */
    char raw_name[STREAM_NAME_MAX]; /* the unchanged bytes of the archive, for comparing names */
    uint64_t size;                  /* or STREAM_SIZE_UNKNOWN */
    uint64_t position;              /* bytes taken so far */
    bool cut;                       /* the compressed data ended in the middle */

    int (*fill)(struct stream *stream, void *out, size_t size, size_t *got, struct err *err);
    int fd;                /* file */
    struct stream *parent; /* gzip, entry: borrowed */
    struct gzip *gzip;
    struct stream_watch *watch; /* borrowed; NULL: none, for files alone */
    uint64_t filled;            /* bytes that fill has returned */
    uint8_t peeked[STREAM_PEEK_MAX];
    size_t peek_first, peek_end;
};

/* Open a seekable file from its first byte on; fd stays the caller's. */
NODISCARD int stream_open_file(struct stream *stream, int fd, const char *name, struct err *err);
/* Open the expansion of a parent that starts with gzip's magic bytes. ERR_LIMIT beyond the bytes
 * left in the watch. */
NODISCARD int stream_open_gzip(struct stream *stream, struct stream *parent,
                               struct stream_watch *watch, struct err *err);
/* Open the next `size` bytes of the parent. */
void stream_open_entry(struct stream *stream, struct stream *parent, uint64_t size,
                       const char *name);
/* Free what the stream owns; safe on a zeroed struct. */
void stream_done(struct stream *stream);

/* Read up to `size` bytes; fewer only at the end of the stream. */
NODISCARD int stream_read(struct stream *stream, void *out, size_t size, size_t *got,
                          struct err *err);
/* Read exactly `size` bytes, or ERR_FORMAT: "file 1: the header ends 3 bytes early". */
NODISCARD int stream_read_all(struct stream *stream, void *out, size_t size, const char *what,
                              struct err *err);
/* Skip `size` bytes; ERR_FORMAT as stream_read_all. */
NODISCARD int stream_skip(struct stream *stream, uint64_t size, const char *what, struct err *err);
/* Look at the next bytes: up to STREAM_PEEK_MAX, fewer only at the end of the stream. Borrowed
 * until the next call. */
NODISCARD int stream_peek(struct stream *stream, const uint8_t **out, size_t *size,
                          struct err *err);
/* Check that the content ends here. ERR_FORMAT for further bytes and for truncated compressed
 * data. */
NODISCARD int stream_finish(struct stream *stream, struct err *err);

/* Return ERR_FORMAT: "file 1: the labels end 3 bytes early, at byte 1020". `what` is "the labels
 * end". */
NODISCARD int stream_ends_early(const struct stream *stream, const char *what, uint64_t missing,
                                struct err *err);

/* True for gzip's magic bytes (and its one compression method, deflate). */
bool stream_is_gzip(const uint8_t *bytes, size_t size);

#endif
