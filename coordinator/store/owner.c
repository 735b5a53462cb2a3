#include "coordinator/store/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "coordinator/store/path.h"

#define PID_TEXT_SIZE 24

/* The number in the lock file is only for the message; the lock itself is that of flock. */
static int held_by_another(int fd, const char *directory, const char *holder, struct err *err)
{
    char text[PID_TEXT_SIZE];
    ssize_t size = pread(fd, text, sizeof(text) - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    text[strspn(text, "0123456789")] = '\0';
    return err_set(err, ERR_STATE, "'%s' is in use by another %s (process %s)", directory, holder,
                   text[0] ? text : "unknown");
}

int owner_take(const char *directory, const char *name, const char *holder, int *out,
               struct err *err)
{
    char path[PATH_MAX];
    int rc = path_join(path, directory, name, err);
    if (rc) {
        return rc;
    }
    FD_AUTO int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        int reason = errno;
        return err_set(err, err_from_errno(reason), "open '%s': %s", path, strerror(reason));
    }
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        int reason = errno;
        return reason == EWOULDBLOCK
                   ? held_by_another(fd, directory, holder, err)
                   : err_set(err, ERR_IO, "lock '%s': %s", path, strerror(reason));
    }
    char text[PID_TEXT_SIZE];
    int size = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)size, 0) != size) {
        /* A full disk must not keep a coordinator from starting: the owner's name is only
         * informative. */
        log_warn("owner_not_named", "path=%s", log_quote(path).text);
    }
    *out = fd;
    fd = -1; /* NOLINT(clang-analyzer-deadcode.DeadStores): FD_AUTO reads it, which the analyser
                does not see */
    return 0;
}
