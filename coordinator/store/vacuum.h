/* vacuum.h: makes free pages of state.db releasable. Private to coordinator/store; the loop's
 * thread only. */
#ifndef COORDINATOR_STORE_VACUUM_H
#define COORDINATOR_STORE_VACUUM_H

#include "base/err.h"

struct sqlite3;

/* Enable the tracking of pages, so that free ones can be released. Call it before the first page of
 * a new file. */
NODISCARD int vacuum_prepare(struct sqlite3 *db, struct err *err);
/* Rewrite the file of an earlier version, which does not track pages, if the disk has room for a
 * copy. Otherwise a later start does it. */
NODISCARD int vacuum_convert(struct sqlite3 *db, const char *directory, struct err *err);

#endif
