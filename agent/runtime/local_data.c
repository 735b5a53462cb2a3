#include "agent/runtime/local_data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/archive.h"
#include "base/assert.h"
#include "base/file.h"
#include "schema/limits.h"

#define PIECE_BYTES (1u << 20)

/* A data set that is being written to a file. */
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
static int open_temporary(const struct local_form *form, int *out, struct err *err)
{
    const char *temporary = getenv("TMPDIR");
    const char *directory = form && form->directory ? form->directory
                            : temporary             ? temporary
                                                    : "/tmp";
    char path[4096];
    const int length = snprintf(path, sizeof(path), "%s/paceline-data-XXXXXX", directory);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        return err_set(err, ERR_LIMIT, "'%s' is too long", directory);
    }
    const int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        return err_set(err, err_from_errno(errno), "make '%s': %s", path, strerror(errno));
    }
    (void)unlink(path);
    *out = fd;
    return 0;
}

/* The first `count` are open. */
struct open_files {
    int fd[LOCAL_DATA_FILES_MAX];
    size_t count;
};

static void open_files_close(struct open_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        file_close(&files->fd[i]);
    }
}

static int order_files(struct archive *archive, const struct local_form *form, struct err *err)
{
    int rc = 0;
    const char *entry;
    if (form && form->first) {
        (void)archive_put_first(archive, form->first->data, form->first->size);
    }
    for (size_t i = 0; rc == 0 && form && form->files && (entry = archive_entry(archive, i)); i++) {
        rc = buf_append(form->files, entry, strlen(entry) + 1, err);
    }
    return rc;
}

/* Open the files of a directory as a tar, in the form that `paceline` uploads. form NULL: without
 * options for files. */
static int open_directory(const char *path, const struct local_form *form, int *out,
                          struct err *err)
{
    AUTO(archive_free) struct archive *archive = NULL;
    FD_AUTO int fd = -1;
    char *piece = malloc(PIECE_BYTES);
    int rc = piece ? archive_open(path, ARCHIVE_ALL, &archive, err)
                   : err_set(err, ERR_MEMORY, "%u bytes", PIECE_BYTES);
    rc = rc ? rc : order_files(archive, form, err);
    rc = rc ? rc : open_temporary(form, &fd, err);
    struct temporary temporary = {.fd = fd};
    ssize_t got = 1;
    while (rc == 0 && got > 0) {
        got = archive_read(archive, piece, PIECE_BYTES);
        if (got < 0) {
            *err = *archive_error(archive);
            rc = err->code;
        } else {
            rc = write_piece(&temporary, piece, (size_t)got, err);
        }
    }
    free(piece);
    if (rc == 0) {
        *out = fd;
        fd = -1;
    }
    return rc;
}

static bool is_directory(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
}

static int open_file(struct open_files *files, const char *path, const struct local_form *form,
                     struct err *err)
{
    ASSERT(files->count < LOCAL_DATA_FILES_MAX);
    FD_AUTO int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_set(err, err_from_errno(errno), "open '%s': %s", path, strerror(errno));
    }
    if (is_directory(fd)) {
        file_close(&fd);
        int rc = open_directory(path, form, &fd, err);
        if (rc != 0) {
            return rc;
        }
    }
    files->fd[files->count++] = fd;
    fd = -1;
    return 0;
}

static int open_pair(struct open_files *files, const char *paths, const struct local_form *form,
                     struct err *err)
{
    char text[4096];
    int rc = 0;
    if (snprintf(text, sizeof(text), "%s", paths) >= (int)sizeof(text)) {
        return err_set(err, ERR_LIMIT, "the paths are too long");
    }
    char *rest = text;
    for (char *path = strsep(&rest, ","); rc == 0 && path; path = strsep(&rest, ",")) {
        if (files->count == 2) {
            return err_set(err, ERR_INVALID, "at most 2 files: images and labels");
        }
        rc = open_file(files, path, form, err);
    }
    return rc;
}

int local_data_convert(const char *const *paths, size_t count, const struct local_form *form,
                       dataset_sink_fn sink, void *arg, struct dataset_info *info, struct err *err)
{
    const struct dataset_limits limits = {.total_bytes = DATASET_BYTES_MAX,
                                          .entries = DATASET_ENTRIES_MAX,
                                          .unlabelled = form->unlabelled,
                                          .names = form->names,
                                          .counts = form->counts,
                                          .go_on = form->go_on,
                                          .go_on_arg = form->arg};
    struct open_files files AUTO(open_files_close) = {0};
    int rc = count == 1 ? open_pair(&files, paths[0], form, err) : 0;
    for (size_t i = 0; rc == 0 && count > 1 && i < count; i++) {
        rc = open_file(&files, paths[i], form, err);
    }
    if (form->names) {
        form->names->file = files.count == count ? paths : NULL;
    }
    return rc ? rc
              : dataset_convert(files.fd, files.count, form->reading, &limits, sink, arg, info,
                                err);
}

int local_data_open(const char *const *paths, size_t count, const struct local_form *form,
                    struct data **out, struct dataset_info *info, struct err *err)
{
    FD_AUTO int result = -1;
    int rc = open_temporary(form, &result, err);
    struct temporary temporary = {.fd = result};
    rc = rc ? rc : local_data_convert(paths, count, form, write_piece, &temporary, info, err);
    return rc ? rc : data_open_file(result, out, err);
}

int local_data_text_end(const char *path, uint8_t *out, size_t capacity, size_t *size,
                        struct err *err)
{
    const struct dataset_limits limits = {.total_bytes = DATASET_BYTES_MAX,
                                          .entries = DATASET_ENTRIES_MAX};
    struct open_files file AUTO(open_files_close) = {0};
    int rc = open_file(&file, path, NULL, err);
    return rc ? rc : dataset_text_end(file.fd[0], &limits, out, capacity, size, err);
}
