/* source.h: the files within a file: itself, or the entries of a tar; each of them may be compressed with gzip. Private
 * to libtrain/formats. One thread. */
#ifndef LIBTRAIN_FORMATS_SOURCE_H
#define LIBTRAIN_FORMATS_SOURCE_H

#include "libtrain/formats/dataset.h"
#include "libtrain/formats/stream.h"
#include "libtrain/formats/tar.h"

/* In the caller's storage; must not be moved: the streams refer to each other. */
struct source {
    const struct dataset_limits *limits; /* borrowed */
    struct stream file, expanded_file;
    struct stream *base; /* one of the two */
    bool is_tar;
    struct tar tar;
    struct stream entry, expanded_entry;
    size_t next; /* index of the content that source_next gives next */
};

/* Start at the first content; also to start again. `name` stands in errors. */
NODISCARD int source_open(struct source *source, int fd, const char *name, const struct dataset_limits *limits,
                          struct err *err);
/* The next content, borrowed until the next call; NULL behind the last. */
NODISCARD int source_next(struct source *source, struct stream **out, struct err *err);
/* Free what is open; safe on a zeroed struct. */
void source_close(struct source *source);

#endif
