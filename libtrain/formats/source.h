/* source.h: the contents of a file: the file itself, or the entries of a tar; each may be
 * compressed with gzip. Private to libtrain/formats. One thread. */
#ifndef LIBTRAIN_FORMATS_SOURCE_H
#define LIBTRAIN_FORMATS_SOURCE_H

#include "libtrain/formats/dataset.h"
#include "libtrain/formats/stream.h"
#include "libtrain/formats/tar.h"

/* Largest expansion of a labelled archive, relative to its size. Photographs compress to a tenth to
 * a hundredth, drawings and silence to a few hundredths; small archives of plain areas may expand
 * more. */
#define SOURCE_EXPANSION_MAX 256
#define SOURCE_EXPANSION_FREE_BYTES (UINT64_C(1) << 30)

/* In the caller's storage; must not be moved: the streams refer to each other. */
struct source {
    struct stream file, expanded_file;
    struct stream *base; /* file or expanded_file */
    bool is_tar;
    struct tar tar;
    struct stream entry, expanded_entry;
    size_t next;  /* index of the next content */
    bool by_size; /* set by the caller before opening: SOURCE_EXPANSION_MAX holds */
    size_t readings;
    struct stream_watch watch; /* over all readings */
};

/* Start at the first content, or start again. All readings together must not expand compressed data
 * by more than a few times limits->total_bytes. Errors start with `name`. The source is zeroed
 * before the first time. */
NODISCARD int source_open(struct source *source, int fd, const char *name,
                          const struct dataset_limits *limits, struct err *err);
/* Return the next content, borrowed until the next call; NULL after the last. */
NODISCARD int source_next(struct source *source, struct stream **out, struct err *err);
/* Close the source; safe on a zeroed struct. */
void source_close(struct source *source);

#endif
