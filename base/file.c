#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define READ_CHUNK 65536

void file_close(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

static int fail(const char *what, const char *path, struct err *err)
{
    int reason = errno;
    return err_set(err, err_from_errno(reason), "%s '%s': %s", what, path, strerror(reason));
}

int file_read(const char *path, struct buf *out, struct err *err)
{
    FD_AUTO int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail("open", path, err);
    }
    for (;;) {
        /* One byte more than the limit allows would show a file that is too large. */
        size_t room = out->limit - out->size;
        char extra;
        char *to =
            room > 0 ? buf_reserve(out, room < READ_CHUNK ? room : READ_CHUNK, NULL) : &extra;
        if (!to) {
            return err_set(err, ERR_MEMORY, "read '%s': no memory for %zu bytes and more", path,
                           out->size);
        }
        ssize_t got = read(fd, to, room == 0 ? 1 : room < READ_CHUNK ? room : READ_CHUNK);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return fail("read", path, err);
        }
        if (got > 0 && room == 0) {
            return err_set(err, ERR_LIMIT, "read '%s': more than %zu bytes", path, out->limit);
        }
        if (got == 0) {
            break;
        }
        out->size += (size_t)got;
        out->data[out->size] = '\0';
    }
    return 0;
}

static int write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno != EINTR) {
            return -1;
        }
        if (written > 0) {
            data += written;
            size -= (size_t)written;
        }
    }
    return 0;
}

/* The directory part of path: "." for a bare name, "/" for a name in the root. */
static int parent_of(const char *path, char out[PATH_MAX], struct err *err)
{
    const char *slash = strrchr(path, '/');
    size_t size = slash ? (size_t)(slash - path) : 0;
    if (size >= PATH_MAX) {
        return err_set(err, ERR_INVALID, "path '%s' is too long", path);
    }
    if (!slash) {
        memcpy(out, ".", 2);
    } else if (size == 0) {
        memcpy(out, "/", 2);
    } else {
        memcpy(out, path, size);
        out[size] = '\0';
    }
    return 0;
}

int file_sync_directory_of(const char *path, struct err *err)
{
    char parent[PATH_MAX];
    int rc = parent_of(path, parent, err);
    if (rc) {
        return rc;
    }
    FD_AUTO int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return fail("open directory", parent, err);
    }
    return fsync(fd) ? fail("sync directory", parent, err) : 0;
}

int file_draft_open(struct file_draft *draft, const char *path, unsigned mode, struct err *err)
{
    draft->fd = -1;
    draft->path = path;
    int length = snprintf(draft->temporary, sizeof(draft->temporary), "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof(draft->temporary)) {
        return err_set(err, ERR_INVALID, "path '%s' is too long", path);
    }
    draft->fd = mkostemp(draft->temporary, O_CLOEXEC);
    if (draft->fd < 0) {
        return fail("create", draft->temporary, err);
    }
    if (fchmod(draft->fd, (mode_t)mode)) {
        int rc = fail("change mode of", draft->temporary, err);
        file_draft_drop(draft);
        return rc;
    }
    return 0;
}

int file_draft_append(struct file_draft *draft, const void *data, size_t size, struct err *err)
{
    return write_all(draft->fd, data, size) ? fail("write", draft->temporary, err) : 0;
}

int file_draft_sync(struct file_draft *draft, struct err *err)
{
    return fsync(draft->fd) ? fail("sync", draft->temporary, err) : 0;
}

int file_draft_keep(struct file_draft *draft, struct err *err)
{
    int rc = file_draft_sync(draft, err);
    if (!rc && rename(draft->temporary, draft->path)) {
        rc = fail("rename to", draft->path, err);
    }
    if (rc) {
        file_draft_drop(draft);
        return rc;
    }
    file_close(&draft->fd);
    return file_sync_directory_of(draft->path, err);
}

void file_draft_drop(struct file_draft *draft)
{
    if (draft->fd >= 0) {
        file_close(&draft->fd);
        (void)unlink(draft->temporary);
    }
}

int file_write_atomic(const char *path, const void *data, size_t size, unsigned mode,
                      struct err *err)
{
    struct file_draft draft;
    int rc = file_draft_open(&draft, path, mode, err);
    rc = rc ? rc : file_draft_append(&draft, data, size, err);
    rc = rc ? rc : file_draft_keep(&draft, err);
    file_draft_drop(&draft);
    return rc;
}

static int make_one(const char *path, unsigned mode, struct err *err)
{
    if (mkdir(path, (mode_t)mode) == 0) {
        return 0;
    }
    if (errno != EEXIST) {
        return fail("create directory", path, err);
    }
    struct stat status;
    if (stat(path, &status)) {
        return fail("look at", path, err);
    }
    return S_ISDIR(status.st_mode)
               ? 0
               : err_set(err, ERR_EXISTS, "'%s' exists and is not a directory", path);
}

int file_make_directory(const char *path, unsigned mode, struct err *err)
{
    char partial[PATH_MAX];
    size_t size = strlen(path);
    if (size == 0 || size >= sizeof(partial)) {
        return err_set(err, ERR_INVALID, "path '%s' is empty or too long", path);
    }
    memcpy(partial, path, size + 1);
    for (size_t i = 1; i < size; i++) {
        if (partial[i] != '/') {
            continue;
        }
        partial[i] = '\0';
        int rc = make_one(partial, mode, err);
        if (rc) {
            return rc;
        }
        partial[i] = '/';
    }
    return make_one(path, mode, err);
}

static int fail_at(const char *what, uint64_t offset, struct err *err)
{
    int reason = errno;
    return err_set(err, err_from_errno(reason), "%s at byte %" PRIu64 ": %s", what, offset,
                   strerror(reason));
}

int file_write_at(int fd, const void *data, size_t size, uint64_t offset, struct err *err)
{
    const char *from = data;
    while (size > 0) {
        ssize_t written = pwrite(fd, from, size, (off_t)offset);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            return fail_at("write", offset, err);
        }
        from += written;
        size -= (size_t)written;
        offset += (uint64_t)written;
    }
    return 0;
}

int file_read_at(int fd, void *data, size_t size, uint64_t offset, struct err *err)
{
    char *to = data;
    while (size > 0) {
        ssize_t got = pread(fd, to, size, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return fail_at("read", offset, err);
        }
        if (got == 0) {
            return err_set(err, ERR_FORMAT, "ends at byte %" PRIu64 ", %zu bytes early", offset,
                           size);
        }
        to += got;
        size -= (size_t)got;
        offset += (uint64_t)got;
    }
    return 0;
}

int file_free_bytes(const char *path, uint64_t *out, struct err *err)
{
    struct statvfs status;
    if (statvfs(path, &status)) {
        return fail("free space of", path, err);
    }
    *out = (uint64_t)status.f_bavail * status.f_frsize;
    return 0;
}

/* The first directory of the service manager's list, which has colons between them; false: there is
 * none. */
static bool service_directory(char out[PATH_MAX])
{
    const char *list = getenv("STATE_DIRECTORY");
    const size_t size = list && list[0] == '/' ? strcspn(list, ":") : 0;
    if (size == 0 || size >= PATH_MAX) {
        return false;
    }
    memcpy(out, list, size);
    out[size] = '\0';
    return true;
}

/* The state directory of the installed package, which belongs to the user of its service. */
static bool package_directory(const char *name, char out[PATH_MAX])
{
    struct stat status;
    const int length = snprintf(out, PATH_MAX, "/var/lib/paceline-%s", name);
    return geteuid() == 0 && length > 0 && length < PATH_MAX && stat(out, &status) == 0 &&
           S_ISDIR(status.st_mode);
}

static int user_directory(const char *name, char out[PATH_MAX], struct err *err)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    /* A relative XDG path is to be ignored (XDG base directory specification). */
    const bool xdg = state && state[0] == '/';
    if (!xdg && (!home || home[0] != '/')) {
        return err_set(err, ERR_NOT_FOUND,
                       "no state directory: neither XDG_STATE_HOME nor HOME is set");
    }
    const int length = xdg ? snprintf(out, PATH_MAX, "%s/paceline/%s", state, name)
                           : snprintf(out, PATH_MAX, "%s/.local/state/paceline/%s", home, name);
    return length < 0 || length >= PATH_MAX
               ? err_set(err, ERR_LIMIT, "the state directory's path is longer than %d bytes",
                         PATH_MAX - 1)
               : 0;
}

int file_default_state_directory(const char *name, char *out, size_t out_size, struct err *err)
{
    char path[PATH_MAX];
    if (!service_directory(path) && !package_directory(name, path)) {
        const int rc = user_directory(name, path, err);
        if (rc) {
            return rc;
        }
    }
    const size_t size = strlen(path) + 1;
    if (size > out_size) {
        return err_set(err, ERR_LIMIT, "the state directory's path is longer than %zu bytes",
                       out_size - 1);
    }
    memcpy(out, path, size);
    return 0;
}
