/* upload.h: the bytes of an upload: a file, standard input, or a directory as an archive. One
 * thread. */
#ifndef CLI_UPLOAD_H
#define CLI_UPLOAD_H

#include "base/archive.h"
#include "net/hash.h"

struct upload {
    struct archive *archive; /* NULL: fd */
    int fd;
    uint64_t size;
};

/* Open a path; "-" is standard input. upload_done is due afterwards, also after an error. */
NODISCARD int upload_open(const char *path, enum archive_part part, struct upload *out,
                          struct err *err);
void upload_done(struct upload *upload);
/* Read on; arg: a struct upload. Returns bytes, 0 at the end, -1 after a failure. */
ssize_t upload_read(void *arg, void *out, size_t size);
/* Hash all bytes from the start, and return there. */
NODISCARD int upload_hash(struct upload *upload, char out[HASH_TEXT_SIZE], struct err *err);

#endif
