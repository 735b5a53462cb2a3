#include "cli/content.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/answer.h"

#define PIECE_BYTES 65536

static int fail(const char *what, const char *path, struct err *err)
{
    return err_set(err, err_from_errno(errno), "%s '%s': %s", what, path, strerror(errno));
}

/* ---- uploads ---- */

/* Copy what has no length, such as a pipe, into an unnamed file. */
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
static int open_body(const char *path, int *out, uint64_t *size, struct err *err)
{
    const bool input = strcmp(path, "-") == 0;
    FD_AUTO int fd = input ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (fd < 0 || fstat(fd, &about)) {
        return fail("open", path, err);
    }
    if (S_ISDIR(about.st_mode)) {
        return err_set(err, ERR_INVALID, "'%s' is a directory; expected a file", path);
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

static ssize_t read_piece(void *arg, void *out, size_t size)
{
    return read(*(const int *)arg, out, size);
}

int content_put(struct session *session, struct err *err)
{
    FD_AUTO int fd = -1;
    uint64_t size = 0;
    int rc = open_body(session->request.file, &fd, &size, err);
    if (rc) {
        return rc;
    }
    const struct api_call call = {
        .method = session->request.method,
        .path = session->request.target,
        .content_type = "application/octet-stream",
        .read = read_piece,
        .read_arg = &fd,
        .size = (size_t)size,
        .unlimited = true,
    };
    json_auto_t *answer = NULL;
    rc = api_make(&session->api, &call, err);
    rc = rc ? rc : api_json(&session->api, &answer, err);
    return rc ? rc : answer_show(session, answer, err);
}

/* ---- downloads ---- */

struct receiver {
    struct file_draft draft;
    FILE *out; /* instead of the draft; NULL: the draft */
    struct err err;
};

static int receive(void *arg, const void *data, size_t size)
{
    struct receiver *receiver = arg;
    if (receiver->out) {
        return fwrite(data, 1, size, receiver->out) == size ? 0 : ERR_IO;
    }
    return file_draft_append(&receiver->draft, data, size, &receiver->err);
}

static void receiver_done(struct receiver *receiver)
{
    file_draft_drop(&receiver->draft);
}

int content_fetch(struct session *session, const char *target, const char *path, struct err *err)
{
    AUTO(receiver_done) struct receiver receiver = {.draft = {.fd = -1}};
    int rc = 0;
    if (strcmp(path, "-") == 0) {
        receiver.out = session->out;
    } else {
        rc = file_draft_open(&receiver.draft, path, 0644, err);
    }
    const struct api_call call = {.method = "GET",
                                  .path = target,
                                  .write = receive,
                                  .write_arg = &receiver,
                                  .unlimited = true};
    rc = rc ? rc : api_make(&session->api, &call, err);
    if (rc && receiver.err.code) {
        *err = receiver.err;
    }
    if (rc || receiver.out) {
        return rc;
    }
    return file_draft_keep(&receiver.draft, err);
}

int content_get(struct session *session, struct err *err)
{
    const char *path = session->call.options.text[OPTION_OUTPUT];
    return path[0] == '\0' ? answer_request(session, err)
                           : content_fetch(session, session->request.target, path, err);
}
