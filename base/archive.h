/* archive.h: reads the files of a directory as a tar (POSIX ustar), piece by piece. Names are
 * sorted, and times, owners and modes are constant, so the same files give the same bytes. Names
 * that begin with a dot are left out, links are followed. One thread. */
#ifndef BASE_ARCHIVE_H
#define BASE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

#define ARCHIVE_NAME_BYTES 256 /* of a path inside the archive: prefix, slash and name */

/* The part of a directory that holds two data sets side by side, in files or directories whose
 * names begin with "train" and with "t10k", "test" or "val". Other directories have one part. */
enum archive_part {
    ARCHIVE_ALL,
    ARCHIVE_TRAIN,
    ARCHIVE_TEST,
};

struct archive;
/* Open a directory. ERR_INVALID: it has no file, or a name that a tar cannot hold. */
NODISCARD int archive_open(const char *directory, enum archive_part part, struct archive **out,
                           struct err *err);
void archive_free(struct archive **archive);
/* Put files of these names first, in this order; the others follow, sorted. Before the first byte
 * is read. Return whether all of them exist; if not, the order stays.
 *
 *     first  [size] names, each with a zero byte after it */
bool archive_put_first(struct archive *archive, const char *first, size_t size);
uint64_t archive_size(const struct archive *archive);
/* Restart at the first byte. */
void archive_rewind(struct archive *archive);
/* Read the next bytes, at most size; 0: the end; -1: see archive_error. arg: an archive. */
ssize_t archive_read(void *arg, void *out, size_t size);
const struct err *archive_error(const struct archive *archive);
/* Return the name of a file below the directory, in order; NULL after the last. Borrowed. */
const char *archive_entry(const struct archive *archive, size_t index);

#endif
