/* owner.h: allows one process per database, or per backup, by a lock file that names the process.
 * Private to coordinator/store. */
#ifndef COORDINATOR_STORE_OWNER_H
#define COORDINATOR_STORE_OWNER_H

#include "base/err.h"

/* Lock DIRECTORY/NAME. holder: the owner's name for the error of others: "coordinator". *out: a
 * descriptor to close (file_close) with the database; the system releases the lock when the process
 * dies. ERR_STATE: another process (or another store of this process) holds the lock. */
NODISCARD int owner_take(const char *directory, const char *name, const char *holder, int *out,
                         struct err *err);

#endif
