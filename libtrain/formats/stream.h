/* stream.h: bytes to be read once, front to back: a file, what a gzip file expands to, one entry of
 * an archive. With a look ahead, so that a format can be recognised by its first bytes. Private to
 * libtrain/formats. One thread; memory is bounded by a few buffers of STREAM_BUFFER_BYTES. */
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

/* What all streams of a source that are compressed expand to, and who may end the reading. */
struct stream_watch {
    uint64_t expanded, expanded_max;          /* bytes */
    int (*go_on)(void *arg, struct err *err); /* NULL: nobody is asked */
    void *go_on_arg;
};

/* In the caller's storage; must not be moved while another stream reads from it. */
struct stream {
    char name[STREAM_NAME_MAX];     /* for errors: "file 2", "train-images"; one line of UTF-8 */
    char raw_name[STREAM_NAME_MAX]; /* byte for byte as the archive has it: what names are told
                                       apart by */
    uint64_t size;                  /* or STREAM_SIZE_UNKNOWN */
    uint64_t position;              /* bytes taken so far */
    bool cut;                       /* the compressed data ended in the middle */

    int (*fill)(struct stream *stream, void *out, size_t size, size_t *got, struct err *err);
    int fd;                /* file */
    struct stream *parent; /* gzip, entry: borrowed */
    struct gzip *gzip;
    struct stream_watch *watch; /* borrowed; NULL: none, for files alone */
    uint64_t filled;            /* bytes that fill has given */
    uint8_t peeked[STREAM_PEEK_MAX];
    size_t peek_first, peek_end;
};

/* A seekable file from its first byte on; fd stays the caller's. */
NODISCARD int stream_open_file(struct stream *stream, int fd, const char *name, struct err *err);
/* The expansion of a parent that starts with gzip's mark; more bytes than the watch has left are
 * ERR_LIMIT. */
NODISCARD int stream_open_gzip(struct stream *stream, struct stream *parent,
                               struct stream_watch *watch, struct err *err);
/* The next `size` bytes of the parent. */
void stream_open_entry(struct stream *stream, struct stream *parent, uint64_t size,
                       const char *name);
/* Free what the stream owns; safe on a zeroed struct. */
void stream_done(struct stream *stream);

/* Up to `size` bytes; fewer only where the stream ends. */
NODISCARD int stream_read(struct stream *stream, void *out, size_t size, size_t *got,
                          struct err *err);
/* All `size` bytes, or ERR_FORMAT: "file 1: the header ends 3 bytes early". */
NODISCARD int stream_read_all(struct stream *stream, void *out, size_t size, const char *what,
                              struct err *err);
/* Read over `size` bytes; ERR_FORMAT as above. */
NODISCARD int stream_skip(struct stream *stream, uint64_t size, const char *what, struct err *err);
/* The next bytes without taking them: up to STREAM_PEEK_MAX, fewer only where the stream ends.
 * Borrowed until the next call. */
NODISCARD int stream_peek(struct stream *stream, const uint8_t **out, size_t *size,
                          struct err *err);
/* The content must end here; ERR_FORMAT for bytes behind it and for compressed data that was cut.
 */
NODISCARD int stream_finish(struct stream *stream, struct err *err);

/* ERR_FORMAT: "file 1: the labels end 3 bytes early, at byte 1020"; what is "the labels end". */
NODISCARD int stream_ends_early(const struct stream *stream, const char *what, uint64_t missing,
                                struct err *err);

/* True for gzip's mark (and its one compression method, deflate). */
bool stream_is_gzip(const uint8_t *bytes, size_t size);

#endif
