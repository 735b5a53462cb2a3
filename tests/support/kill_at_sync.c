/* kill_at_sync.c: a library to LD_PRELOAD that kills the program at a commit: in place of the call
 * number KILL_AT_SYNC of fsync and fdatasync, or after it when KILL_AFTER_SYNC is set. */
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_long calls;

static int sync_or_die(const char *name, int fd)
{
    int (*real)(int);
    /* POSIX's way to turn dlsym's object pointer into a function pointer. */
    *(void **)&real = dlsym(RTLD_NEXT, name);
    const char *last = getenv("KILL_AT_SYNC");
    const bool is_last = last && atomic_fetch_add(&calls, 1) + 1 == strtol(last, NULL, 10);
    if (is_last && !getenv("KILL_AFTER_SYNC")) {
        (void)kill(getpid(), SIGKILL);
    }
    const int rc = real(fd);
    if (is_last) {
        (void)kill(getpid(), SIGKILL);
    }
    return rc;
}

int fsync(int fd)
{
    return sync_or_die("fsync", fd);
}

int fdatasync(int fd)
{
    return sync_or_die("fdatasync", fd);
}
