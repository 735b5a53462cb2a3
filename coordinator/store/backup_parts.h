/* backup_parts.h: shared by the files that implement backup.h. Private to coordinator/store. */
#ifndef COORDINATOR_STORE_BACKUP_PARTS_H
#define COORDINATOR_STORE_BACKUP_PARTS_H

#include <stdint.h>

#include "base/err.h"
#include "coordinator/store/archive.h"
#include "coordinator/store/backup.h"

/* Check that the file system has room. ERR_FULL names the numbers. */
NODISCARD int backup_check_room(const char *directory, uint64_t needed, uint64_t min_free_bytes,
                                struct err *err);
/* Check whether this version can restore the backup, and report its size. */
NODISCARD int backup_check_contents(const struct archive *archive,
                                    const struct archive_facts *facts, struct backup_report *out,
                                    struct err *err);

#endif
