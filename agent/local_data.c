#include "agent/local_data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "schema/limits.h"

#define FILES_MAX 2

/* A data set on its way into a file. */
struct temporary {
    int fd;
    uint64_t size;
};

static int write_piece(void *arg, const void *data, size_t size, struct err *err)
{
    struct temporary *temporary = arg;
    int rc = file_write_at(temporary->fd, data, size, temporary->size, err);
    temporary->size += size;
    return rc == 0 ? 0 : err_wrap(err, "temporary file");
}

/* A file without a name. */
static int open_temporary(int *out, struct err *err)
{
    const char *directory = getenv("TMPDIR");
    char path[4096];
    const int length = snprintf(path, sizeof(path), "%s/paceline-data-XXXXXX", directory ? directory : "/tmp");
    if (length < 0 || (size_t)length >= sizeof(path)) {
        return err_set(err, ERR_LIMIT, "TMPDIR is too long");
    }
    const int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        return err_set(err, err_from_errno(errno), "make '%s': %s", path, strerror(errno));
    }
    (void)unlink(path);
    *out = fd;
    return 0;
}

static int open_files(const char *paths, int fd[FILES_MAX], size_t *count, struct err *err)
{
    char text[4096];
    if (snprintf(text, sizeof(text), "%s", paths) >= (int)sizeof(text)) {
        return err_set(err, ERR_LIMIT, "the paths are too long");
    }
    char *rest = text;
    for (char *path = strsep(&rest, ","); path; path = strsep(&rest, ",")) {
        if (*count == FILES_MAX) {
            return err_set(err, ERR_INVALID, "at most %d files: images and labels", FILES_MAX);
        }
        fd[*count] = open(path, O_RDONLY | O_CLOEXEC);
        if (fd[*count] < 0) {
            return err_set(err, err_from_errno(errno), "open '%s': %s", path, strerror(errno));
        }
        (*count)++;
    }
    return 0;
}

int local_data_open(const char *paths, const struct local_form *form, struct data **out, struct dataset_info *info,
                    struct err *err)
{
    const struct dataset_limits limits = {
        .total_bytes = DATASET_BYTES_MAX, .entries = DATASET_ENTRIES_MAX, .unlabelled = form->unlabelled};
    int fd[FILES_MAX] = {-1, -1};
    size_t count = 0;
    FD_AUTO int result = -1;
    int rc = open_files(paths, fd, &count, err);
    rc = rc ? rc : open_temporary(&result, err);
    struct temporary temporary = {.fd = result};
    rc = rc ? rc : dataset_convert(fd, count, form->reading, &limits, write_piece, &temporary, info, err);
    rc = rc ? rc : data_open_file(result, out, err);
    for (size_t i = 0; i < FILES_MAX; i++) {
        file_close(&fd[i]);
    }
    return rc;
}
