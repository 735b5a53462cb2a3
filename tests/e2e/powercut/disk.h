/* disk.h: a disk whose power can be cut: a file system on a loop device, shut down without flushing
 * its journal (FS_IOC_SHUTDOWN). Bytes that were not synchronised are lost after the next mount.
 * Needs root. Every end of the process undoes everything: the mount is in a namespace of its own
 * and the loop device clears itself. */
#ifndef TESTS_E2E_POWERCUT_DISK_H
#define TESTS_E2E_POWERCUT_DISK_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"

struct disk {
    char image[PATH_MAX];
    char device[64];
    char mount_point[PATH_MAX];
    const char *file_system;
    int loop; /* keeps the device */
    bool is_mounted;
};

/* Once per process, before any disk. ERR_UNSUPPORTED: not allowed here. */
NODISCARD int disk_prepare_process(struct err *err);
/* Make and format an image below directory and mount it. ERR_UNSUPPORTED: no such mkfs, no loop
 * devices. */
NODISCARD int disk_open(const char *directory, const char *file_system, struct disk *out,
                        struct err *err);
void disk_close(struct disk *disk);
/* From this moment on nothing reaches the disk. */
NODISCARD int disk_cut(struct disk *disk, struct err *err);
/* Unmount and mount again: the start after the power cut. No process may have a file of the disk
 * open. */
NODISCARD int disk_restart(struct disk *disk, struct err *err);

#endif
