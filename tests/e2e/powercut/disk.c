#include "tests/e2e/powercut/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <sched.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

#define IMAGE_BYTES (384LL << 20) /* xfs wants 300 MiB; the file is sparse */
#define LOOP_TRIES 16

/* The same number and meaning in ext4, xfs, f2fs and btrfs; the headers for programs have it only
 * since Linux 6.x. */
#define SHUTDOWN_IOCTL _IOR('X', 125, uint32_t)
#define SHUTDOWN_NO_LOG_FLUSH 2u

extern char **environ;

int disk_prepare_process(struct err *err)
{
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
        return err_set(err, ERR_UNSUPPORTED, "no mount namespace of its own: %s", strerror(errno));
    }
    return 0;
}

static int format(const struct disk *disk, struct err *err)
{
    char program[32];
    (void)snprintf(program, sizeof(program), "mkfs.%s", disk->file_system);
    char quiet[] = "-q", image[PATH_MAX];
    (void)snprintf(image, sizeof(image), "%s", disk->image);
    char *arguments[] = {program, quiet, image, NULL};
    pid_t pid = 0;
    int reason = posix_spawnp(&pid, program, NULL, NULL, arguments, environ);
    if (reason) {
        return err_set(err, ERR_UNSUPPORTED, "%s: %s", program, strerror(reason));
    }
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return err_set(err, ERR_UNSUPPORTED, "%s failed", program);
    }
    return 0;
}

static int make_image(const struct disk *disk, struct err *err)
{
    FD_AUTO int fd = open(disk->image, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, IMAGE_BYTES)) {
        return err_set(err, ERR_IO, "make '%s': %s", disk->image, strerror(errno));
    }
    return 0;
}

/* The device clears itself after its last user; disk->loop is one until disk_close. */
static int attach(struct disk *disk, struct err *err)
{
    FD_AUTO int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    FD_AUTO int image = open(disk->image, O_RDWR | O_CLOEXEC);
    if (control < 0 || image < 0) {
        return err_set(err, ERR_UNSUPPORTED, "no loop devices: %s", strerror(errno));
    }
    for (int i = 0; i < LOOP_TRIES; i++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0) {
            break;
        }
        (void)snprintf(disk->device, sizeof(disk->device), "/dev/loop%d", number);
        FD_AUTO int loop = open(disk->device, O_RDWR | O_CLOEXEC);
        struct loop_config config = {.fd = (uint32_t)image,
                                     .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
        if (loop >= 0 && ioctl(loop, LOOP_CONFIGURE, &config) == 0) {
            disk->loop = loop;
            loop = -1;
            /* The device holds the file now; unlinked, it is freed with the device. */
            return unlink(disk->image)
                       ? err_set(err, ERR_IO, "unlink '%s': %s", disk->image, strerror(errno))
                       : 0;
        }
        if (errno != EBUSY) {
            break;
        }
    }
    return err_set(err, ERR_UNSUPPORTED, "no free loop device: %s", strerror(errno));
}

static int mount_disk(struct disk *disk, struct err *err)
{
    if (mount(disk->device, disk->mount_point, disk->file_system, 0, NULL)) {
        return err_set(err, ERR_UNSUPPORTED, "mount %s: %s", disk->file_system, strerror(errno));
    }
    disk->is_mounted = true;
    return 0;
}

int disk_open(const char *directory, const char *file_system, struct disk *out, struct err *err)
{
    struct disk disk = {.file_system = file_system, .loop = -1};
    (void)snprintf(disk.image, sizeof(disk.image), "%s/image", directory);
    (void)snprintf(disk.mount_point, sizeof(disk.mount_point), "%s/disk", directory);
    int rc = file_make_directory(disk.mount_point, 0700, err);
    rc = rc ? rc : make_image(&disk, err);
    rc = rc ? rc : format(&disk, err);
    rc = rc ? rc : attach(&disk, err);
    rc = rc ? rc : mount_disk(&disk, err);
    if (rc) {
        disk_close(&disk);
        return rc;
    }
    *out = disk;
    return 0;
}

void disk_close(struct disk *disk)
{
    if (disk->is_mounted) {
        (void)umount2(disk->mount_point, MNT_DETACH);
    }
    file_close(&disk->loop);
    (void)unlink(disk->image);
    (void)rmdir(disk->mount_point);
}

int disk_cut(struct disk *disk, struct err *err)
{
    FD_AUTO int fd = open(disk->mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint32_t how = SHUTDOWN_NO_LOG_FLUSH;
    if (fd < 0 || ioctl(fd, SHUTDOWN_IOCTL, &how)) {
        return err_set(err, ERR_UNSUPPORTED, "shut down %s: %s", disk->file_system,
                       strerror(errno));
    }
    return 0;
}

int disk_restart(struct disk *disk, struct err *err)
{
    if (umount2(disk->mount_point, 0)) {
        return err_set(err, ERR_IO, "unmount: %s", strerror(errno));
    }
    disk->is_mounted = false;
    return mount_disk(disk, err);
}
