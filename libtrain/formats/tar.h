/* tar.h: the regular files of a tar archive (ustar, pax or GNU), one after the other. Directories
 * are skipped. Links, devices, absolute names and ".." are rejected, as are extended headers that
 * change sizes. Private to libtrain/formats. One thread. Source: POSIX.1-2017, pax and ustar
 * interchange formats; GNU tar manual, "Basic Tar Format". */
#ifndef LIBTRAIN_FORMATS_TAR_H
#define LIBTRAIN_FORMATS_TAR_H

#include "libtrain/formats/stream.h"

#define TAR_NAME_MAX 257

struct tar {
    struct stream *from; /* borrowed */
    size_t entries_max;
    size_t entries;
    uint64_t next;                /* position of the next entry's header */
    char long_name[TAR_NAME_MAX]; /* of the next entry, from an extended header; "": none */
};

/* True for the first bytes of an archive. */
bool tar_recognise(const uint8_t *bytes, size_t size);
/* Recognise another kind of archive or compression by its first bytes: "a zip (as .npz is)"; NULL:
 * unknown. */
const char *tar_other(const uint8_t *bytes, size_t size);
void tar_open(struct tar *tar, struct stream *from, size_t entries_max);
/* Open the next file as a stream; *found is false after the last. Skips the rest of the previous
 * entry. */
NODISCARD int tar_next(struct tar *tar, struct stream *entry, bool *found, struct err *err);

#endif
