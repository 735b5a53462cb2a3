#include "cli/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "net/hash.h"

#define PIECE_BYTES 65536

static int fail(const char *what, const char *path, struct err *err)
{
    return err_set(err, err_from_errno(errno), "%s '%s': %s", what, path, strerror(errno));
}

/* Copy data of unknown length, such as those of a pipe, into an unnamed file. */
static int spool(int from, const char *path, int *out, struct err *err)
{
    char name[] = "/tmp/paceline-XXXXXX";
    FD_AUTO int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0 || unlink(name)) {
        return fail("open", name, err);
    }
    char piece[PIECE_BYTES];
    uint64_t offset = 0;
    for (ssize_t size; (size = read(from, piece, sizeof(piece))) != 0;) {
        int rc = size < 0 ? fail("read", path, err)
                          : file_write_at(fd, piece, (size_t)size, offset, err);
        if (rc) {
            return rc;
        }
        offset += (uint64_t)size;
    }
    if (lseek(fd, 0, SEEK_SET) < 0) {
        return fail("read", path, err);
    }
    *out = fd;
    fd = -1;
    return 0;
}

/* Open a file whose length is known. */
static int open_file(const char *path, int *out, uint64_t *size, struct err *err)
{
    const bool input = strcmp(path, "-") == 0;
    FD_AUTO int fd = input ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (fd < 0 || fstat(fd, &about)) {
        return fail("open", path, err);
    }
    if (!S_ISREG(about.st_mode)) {
        int spooled = -1;
        int rc = spool(fd, path, &spooled, err);
        if (rc) {
            return rc;
        }
        file_close(&fd);
        fd = spooled;
        if (fstat(fd, &about)) {
            return fail("open", path, err);
        }
    }
    *size = (uint64_t)about.st_size;
    *out = fd;
    fd = -1;
    return 0;
}

int upload_open(const char *path, enum archive_part part, struct upload *out, struct err *err)
{
    struct stat about;
    *out = (struct upload){.fd = -1};
    if (strcmp(path, "-") != 0 && stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        int rc = archive_open(path, part, &out->archive, err);
        if (!rc) {
            out->size = archive_size(out->archive);
        }
        return rc;
    }
    return open_file(path, &out->fd, &out->size, err);
}

void upload_done(struct upload *upload)
{
    archive_free(&upload->archive);
    file_close(&upload->fd);
}

ssize_t upload_read(void *arg, void *out, size_t size)
{
    struct upload *upload = arg;
    return upload->archive ? archive_read(upload->archive, out, size) : read(upload->fd, out, size);
}

int upload_hash(struct upload *upload, char out[HASH_TEXT_SIZE], struct err *err)
{
    struct sha256 *hash = NULL;
    char piece[PIECE_BYTES];
    int rc = sha256_new(&hash, err);
    if (rc) {
        return rc;
    }
    ssize_t size = 0;
    while ((size = upload_read(upload, piece, sizeof(piece))) > 0) {
        sha256_update(hash, piece, (size_t)size);
    }
    sha256_finish_text(hash, out);
    sha256_free(&hash);
    if (size < 0 && upload->archive) {
        *err = *archive_error(upload->archive);
        return err->code;
    }
    if (size < 0) {
        return err_set(err, ERR_IO, "read the data: %s", strerror(errno));
    }
    if (upload->archive) {
        archive_rewind(upload->archive);
        return 0;
    }
    return lseek(upload->fd, 0, SEEK_SET) < 0
               ? err_set(err, ERR_IO, "read the data again: %s", strerror(errno))
               : 0;
}
