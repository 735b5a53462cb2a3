/* file.h: reads and writes whole files and directories, for edges. Any thread. Errors name the path
 * and the system's reason. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

void file_close(int *fd);
#define FD_AUTO AUTO(file_close)

/* Read a whole file of at most out->limit bytes. */
NODISCARD int file_read(const char *path, struct buf *out, struct err *err);
/* Replace a file so that after a power cut it has the old or the new content: temporary name,
 * fsync, rename, fsync of the directory. */
NODISCARD int file_write_atomic(const char *path, const void *data, size_t size, unsigned mode,
                                struct err *err);
/* Replace a file piece by piece: open, append, and keep or drop. `path` is borrowed until keep or
 * drop. A draft that was kept or dropped, or whose open failed, may be dropped again. */
struct file_draft {
    int fd;
    const char *path;
    char temporary[4096];
};
NODISCARD int file_draft_open(struct file_draft *draft, const char *path, unsigned mode,
                              struct err *err);
NODISCARD int file_draft_append(struct file_draft *draft, const void *data, size_t size,
                                struct err *err);
/* Write the appended bytes to the disk. file_draft_keep does it too; call this before it for
 * several drafts that are kept together. */
NODISCARD int file_draft_sync(struct file_draft *draft, struct err *err);
NODISCARD int file_draft_keep(struct file_draft *draft, struct err *err);
void file_draft_drop(struct file_draft *draft);
/* Make the creation, renaming or removal of a file survive a power cut. */
NODISCARD int file_sync_directory_of(const char *path, struct err *err);
/* Create a directory and its parents, as mkdir -p; existing directories are fine. */
NODISCARD int file_make_directory(const char *path, unsigned mode, struct err *err);
/* Write or read all bytes at an offset; ERR_FORMAT when the file ends early. */
NODISCARD int file_write_at(int fd, const void *data, size_t size, uint64_t offset,
                            struct err *err);
NODISCARD int file_read_at(int fd, void *data, size_t size, uint64_t offset, struct err *err);
/* Set *out to the bytes that an unprivileged process may still write on the file system of path. */
NODISCARD int file_free_bytes(const char *path, uint64_t *out, struct err *err);
/* Write the state directory of paceline-NAME: the first of $STATE_DIRECTORY (from a service
 * manager); for root "/var/lib/paceline-NAME" if it exists (from an installed package);
 * "$XDG_STATE_HOME/paceline/ NAME"; "$HOME/.local/state/paceline/NAME". */
NODISCARD int file_default_state_directory(const char *name, char *out, size_t out_size,
                                           struct err *err);

#endif
