#include "coordinator/store/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "coordinator/store/path.h"

struct reserve {
    char directory[PATH_MAX];
    char path[PATH_MAX];
    bool filled;
};

int reserve_open(const char *directory, const char *name, struct reserve **out, struct err *err)
{
    struct reserve *reserve = calloc(1, sizeof(*reserve));
    if (!reserve) {
        return err_set(err, ERR_MEMORY, "reserve: out of memory");
    }
    int rc = path_join(reserve->path, directory, name, err);
    if (rc) {
        free(reserve);
        return rc;
    }
    (void)snprintf(reserve->directory, sizeof(reserve->directory), "%s", directory);
    *out = reserve;
    return 0;
}

void reserve_close(struct reserve **reserve)
{
    free(*reserve);
    *reserve = NULL;
}

int reserve_fill(struct reserve *reserve, struct err *err)
{
    if (reserve->filled) {
        return 0;
    }
    FD_AUTO int fd = open(reserve->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int reason = fd < 0 ? errno : posix_fallocate(fd, 0, RESERVE_BYTES);
    if (reason == 0 && fsync(fd)) {
        reason = errno;
    }
    if (reason) {
        (void)unlink(reserve->path);
        return err_set(err, err_from_errno(reason), "reserve '%s': %s", reserve->path,
                       strerror(reason));
    }
    reserve->filled = true;
    return 0;
}

bool reserve_refill(struct reserve *reserve)
{
    uint64_t free_bytes = 0;
    if (!reserve->filled && file_free_bytes(reserve->directory, &free_bytes, NULL) == 0 &&
        free_bytes >= 2 * (uint64_t)RESERVE_BYTES) {
        return reserve_fill(reserve, NULL) == 0;
    }
    return reserve->filled;
}

bool reserve_filled(const struct reserve *reserve)
{
    return reserve->filled;
}

bool reserve_release(struct reserve *reserve)
{
    bool released = reserve->filled && unlink(reserve->path) == 0;
    reserve->filled = false;
    return released;
}
