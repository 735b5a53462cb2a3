/* source.h: the files within a file: itself, or the entries of a tar; each of them may be
 * compressed with gzip. Private to libtrain/formats. One thread. */
#ifndef LIBTRAIN_FORMATS_SOURCE_H
#define LIBTRAIN_FORMATS_SOURCE_H

#include "libtrain/formats/dataset.h"
#include "libtrain/formats/stream.h"
#include "libtrain/formats/tar.h"

/* What labelled archives may expand to, by their size: what photographs are packed to is a tenth to
 * a hundredth, drawings and silence a few hundredths; small archives of plain areas may have more.
 */
#define SOURCE_EXPANSION_MAX 256
#define SOURCE_EXPANSION_FREE_BYTES (UINT64_C(1) << 30)

/* In the caller's storage; must not be moved: the streams refer to each other. */
struct source {
    struct stream file, expanded_file;
    struct stream *base; /* one of the two */
    bool is_tar;
    struct tar tar;
    struct stream entry, expanded_entry;
    size_t next;  /* index of the content that source_next gives next */
    bool by_size; /* the caller's, before it is opened: SOURCE_EXPANSION_MAX holds */
    size_t readings;
    struct stream_watch watch; /* over all readings */
};

/* Start at the first content; also to start again, which must not give compressed data more time
 * than a few readings of what limits->total_bytes allows. `name` stands in errors. The source is
 * zeroed before the first time. */
NODISCARD int source_open(struct source *source, int fd, const char *name,
                          const struct dataset_limits *limits, struct err *err);
/* The next content, borrowed until the next call; NULL behind the last. */
NODISCARD int source_next(struct source *source, struct stream **out, struct err *err);
/* Free what is open; safe on a zeroed struct. */
void source_close(struct source *source);

#endif
