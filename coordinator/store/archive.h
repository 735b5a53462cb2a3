/* archive.h: reads and writes a backup file: the contents of a state directory, each with its name,
 * size and SHA-256, in one SQLite database of 1 MiB chunks. Private to coordinator/store. One
 * thread. */
#ifndef COORDINATOR_STORE_ARCHIVE_H
#define COORDINATOR_STORE_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coordinator/store/blobs.h"

#define ARCHIVE_NAME_SIZE 128

enum archive_kind {
    ARCHIVE_STATE, /* state.db */
    ARCHIVE_FILE,  /* name: relative to the state directory */
    ARCHIVE_BLOB,  /* name: its sha256 */
};

struct archive_content {
    enum archive_kind kind;
    char name[ARCHIVE_NAME_SIZE];
    char sha256[BLOB_SHA256_SIZE];
    uint64_t size;
    unsigned mode; /* of a file */
    int64_t id;    /* of its chunks */
};

struct archive_facts {
    int64_t made_ms;    /* wall time */
    int64_t schema;     /* of state.db */
    int64_t incomplete; /* blobs that were missing or damaged in the directory */
    char version[32];   /* of the program */
};

/* ---- writing: the file appears under its name after all its bytes are on the disk ---- */
struct archive_draft;
/* Create PATH.partial; it replaces that of an interrupted backup. ERR_EXISTS: the file at path is
 * not a backup. */
NODISCARD int archive_create(const char *path, struct archive_draft **out, struct err *err);
/* Begin a content, append to it in any pieces, end it. The next begin drops a content that was not
 * ended. */
NODISCARD int archive_begin(struct archive_draft *draft, enum archive_kind kind, const char *name,
                            unsigned mode, struct err *err);
NODISCARD int archive_append(struct archive_draft *draft, const void *data, size_t size,
                             struct err *err);
NODISCARD int archive_end(struct archive_draft *draft, struct err *err);
/* Synchronise the file to the disk and rename it. */
NODISCARD int archive_keep(struct archive_draft *draft, const struct archive_facts *facts,
                           struct err *err);
/* Close the draft after archive_keep, or drop it without. */
void archive_close(struct archive_draft **draft);

/* ---- reading ---- */
struct archive;
/* Open a backup. ERR_NOT_FOUND; ERR_FORMAT: not a backup, or truncated; ERR_UNSUPPORTED: a later
 * format. */
NODISCARD int archive_open(const char *path, struct archive **out, struct archive_facts *facts,
                           struct err *err);
void archive_free(struct archive **archive);
/* Return the contents in the order of their kinds. Borrowed. */
const struct archive_content *archive_contents(const struct archive *archive, size_t *count);
/* Pass the content in pieces to take (NULL: only compare), and compare it with its hash.
 * ERR_FORMAT: damaged. */
typedef int (*archive_take_fn)(void *arg, const void *data, size_t size, struct err *err);
NODISCARD int archive_read(struct archive *archive, const struct archive_content *content,
                           archive_take_fn take, void *arg, struct err *err);

#endif
