/* backup.h: makes, checks and restores copies of a state directory in one file. A coordinator may
 * run on the directory during a backup. For the program's commands, which run in a process of their
 * own. A backup holds the keys and the hashes of tokens of the directory. */
#ifndef COORDINATOR_STORE_BACKUP_H
#define COORDINATOR_STORE_BACKUP_H

#include <stdint.h>

#include "base/err.h"

struct backup_report {
    uint64_t blobs, bytes; /* undamaged blobs, and the bytes of all contents */
    uint64_t damaged;      /* missing or damaged blobs that rows name; each was logged */
    int64_t schema;        /* of state.db */
    int64_t made_ms;       /* wall time; 0: the report is of a state directory */
    char version[32];      /* of the program that made the backup; "": a state directory */
};

/* Write the state of `directory` into the file `path`, which appears when it is complete and
 * replaces an earlier backup. min_free_bytes: space that stays free on the disk. ERR_FULL: no
 * partial file remains; ERR_STATE: another backup runs; ERR_NOT_FOUND: no state; ERR_EXISTS:
 * another file is at path; ERR_FORMAT: state.db is damaged; ERR_UNSUPPORTED; ERR_IO. */
NODISCARD int backup_make(const char *directory, const char *path, uint64_t min_free_bytes,
                          struct backup_report *out, struct err *err);
/* Read a whole state directory, even of a running coordinator, and look for damage. */
NODISCARD int backup_check_directory(const char *directory, struct backup_report *out,
                                     struct err *err);
/* Check a backup in the same way. ERR_FORMAT names the first damage. */
NODISCARD int backup_check_file(const char *path, struct backup_report *out, struct err *err);
/* Make a state directory from a backup. The directory may exist, but must not hold state. The files
 * appear after all of them are on the disk, state.db last, so an interrupted restore can be
 * repeated. ERR_EXISTS: the directory holds state; ERR_STATE: a coordinator runs there; ERR_FORMAT;
 * ERR_UNSUPPORTED: made by a newer version; ERR_FULL; ERR_IO. */
NODISCARD int backup_restore(const char *path, const char *directory, uint64_t min_free_bytes,
                             struct backup_report *out, struct err *err);

#endif
