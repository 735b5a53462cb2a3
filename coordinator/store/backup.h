/* backup.h: copies of a state directory in one file: made while a coordinator runs on it or not,
 * checked, and turned into a state directory again. For the program's commands, which run in a
 * process of their own. A backup holds the keys and the hashes of tokens of the directory. */
#ifndef COORDINATOR_STORE_BACKUP_H
#define COORDINATOR_STORE_BACKUP_H

#include <stdint.h>

#include "base/err.h"

struct backup_report {
    uint64_t blobs, bytes; /* whole ones, and the bytes of all contents */
    uint64_t damaged; /* blobs that rows name and that are missing or damaged; each was logged */
    int64_t schema;   /* of state.db */
    int64_t made_ms;  /* wall time; 0: of a state directory */
    char version[32]; /* of the program that made the backup; "": of a state directory */
};

/* Write the state of `directory` into the file `path`, which appears when it is whole; an earlier
 * backup there is replaced. min_free_bytes: how much stays free beside it.
 * ERR_FULL: nothing is left of the file; ERR_STATE: another backup runs; ERR_NOT_FOUND: no state;
 * ERR_EXISTS: another file is at path; ERR_FORMAT: state.db is damaged; ERR_UNSUPPORTED; ERR_IO. */
NODISCARD int backup_make(const char *directory, const char *path, uint64_t min_free_bytes,
                          struct backup_report *out, struct err *err);
/* Read all of a state directory, also of a running coordinator, and look for damage. */
NODISCARD int backup_check_directory(const char *directory, struct backup_report *out,
                                     struct err *err);
/* The same of a backup. ERR_FORMAT names the first damage. */
NODISCARD int backup_check_file(const char *path, struct backup_report *out, struct err *err);
/* Make the state directory of a backup. The directory may exist, but not hold state. Its files
 * appear when all of them are on the disk, state.db last; an interrupted restore can be repeated.
 * ERR_EXISTS: there is state; ERR_STATE: a coordinator runs there; ERR_FORMAT; ERR_UNSUPPORTED:
 * made by a newer version; ERR_FULL; ERR_IO. */
NODISCARD int backup_restore(const char *path, const char *directory, uint64_t min_free_bytes,
                             struct backup_report *out, struct err *err);

#endif
