/* hang.c: a library to LD_PRELOAD that makes a disk hang: while the file HANG_WHILE exists, calls
 * on files whose path begins with HANG_BELOW do not return. The program's other threads go on. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_MS 20

static bool is_below(const char *path)
{
    const char *below = getenv("HANG_BELOW");
    return below && strncmp(path, below, strlen(below)) == 0;
}

static void hang(const char *path)
{
    const char *condition = getenv("HANG_WHILE");
    while (condition && is_below(path) && access(condition, F_OK) == 0) {
        (void)poll(NULL, 0, LOOK_MS);
    }
}

static void hang_file(int fd)
{
    char link[64];
    char path[PATH_MAX];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length > 0) {
        path[length] = '\0';
        hang(path);
    }
}

/* POSIX's way to turn dlsym's object pointer into a function pointer. */
#define FIND(pointer, name) (*(void **)&(pointer) = dlsym(RTLD_NEXT, (name)))

int open64(const char *path, int flags, ...)
{
    static int (*real)(const char *, int, ...);
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    FIND(real, "open64");
    hang(path);
    return real(path, flags, mode);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    FIND(real, "pwrite64");
    hang_file(fd);
    return real(fd, data, size, offset);
}

ssize_t pread64(int fd, void *data, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, void *, size_t, off64_t);
    FIND(real, "pread64");
    hang_file(fd);
    return real(fd, data, size, offset);
}

int fsync(int fd)
{
    static int (*real)(int);
    FIND(real, "fsync");
    hang_file(fd);
    return real(fd);
}
