/* owner.h: one process per database: a lock file beside it that names the process which holds it.
 * Private to coordinator/store. */
#ifndef COORDINATOR_STORE_OWNER_H
#define COORDINATOR_STORE_OWNER_H

#include "base/err.h"

/* Lock DIRECTORY/NAME. *out: a descriptor to close (file_close) with the database; the system
 * releases the lock when the process dies. ERR_STATE: another process (or another store of this
 * one) holds it. */
NODISCARD int owner_take(const char *directory, const char *name, int *out, struct err *err);

#endif
