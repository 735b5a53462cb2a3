/* backup_parts.h: shared by the files that implement backup.h. Private to coordinator/store. */
#ifndef COORDINATOR_STORE_BACKUP_PARTS_H
#define COORDINATOR_STORE_BACKUP_PARTS_H

#include <stdint.h>

#include "base/err.h"
#include "coordinator/store/archive.h"
#include "coordinator/store/backup.h"

/* ERR_FULL, with the numbers, unless the file system has room. */
NODISCARD int backup_check_room(const char *directory, uint64_t needed, uint64_t min_free_bytes,
                                struct err *err);
/* What the backup says of itself: whether this version can restore it, and its size. */
NODISCARD int backup_check_contents(const struct archive *archive,
                                    const struct archive_facts *facts, struct backup_report *out,
                                    struct err *err);

#endif
