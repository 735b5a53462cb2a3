#include "base/user.h"

#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int user_become_owner(const char *directory, struct err *err)
{
    struct stat status;
    if (geteuid() != 0) {
        return 0;
    }
    if (stat(directory, &status) != 0) {
        return errno == ENOENT ? 0 : err_set(err, ERR_IO, "'%s': %s", directory, strerror(errno));
    }
    if (status.st_uid == 0) {
        return 0;
    }
    /* The user last: only root may change groups. */
    if (setgroups(0, NULL) != 0 || setresgid(status.st_gid, status.st_gid, status.st_gid) != 0 ||
        setresuid(status.st_uid, status.st_uid, status.st_uid) != 0) {
        return err_set(err, ERR_IO, "become user %u, the owner of '%s': %s",
                       (unsigned)status.st_uid, directory, strerror(errno));
    }
    return 0;
}
