/* owner.h: one process per database: a lock file beside it that names the process which holds it.
 * Private to coordinator/store. */
#ifndef COORDINATOR_STORE_OWNER_H
#define COORDINATOR_STORE_OWNER_H

#include "base/err.h"

/* Take DIRECTORY/NAME. *out: a descriptor to close (file_close) when the database is closed; the
 * system lets go of the lock when the process dies. ERR_STATE: another process (or another store of
 * this one) holds it. */
NODISCARD int owner_take(const char *directory, const char *name, int *out, struct err *err);

#endif
