/* data.h: data of the user's that becomes a data set of the coordinator. One thread. */
#ifndef CLI_DATA_H
#define CLI_DATA_H

#include "cli/session.h"
#include "cli/upload.h"

/* Write the name of a data set for content with this hash: "fashion-mini-train-3fa9c1d2e4b5" for a
 * path ".../Fashion Mini". Pure. */
void data_name(const char *path, enum archive_part part, const char *sha256, char out[NAME_SIZE]);
/* Upload a file or directory under the name of its content, unless it is there; with --curl write
 * the curl command that would. */
NODISCARD int data_put(struct session *session, const char *path, enum archive_part part,
                       char out[NAME_SIZE], struct err *err);
/* Append the names of the directory's entries that are part of the archive, each after a space,
 * quoted for a shell. */
NODISCARD int data_names(const struct archive *archive, struct buf *out, struct err *err);
/* Append the tar command of a directory: "tar -C DIR -cf - NAME...". */
NODISCARD int data_tar(const char *path, const struct archive *archive, struct buf *out,
                       struct err *err);

#endif
