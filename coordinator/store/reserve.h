/* reserve.h: disk space for a full disk: a preallocated file beside state.db. Its release to the
 * file system keeps the coordinator's objects writable. Private to coordinator/store. */
#ifndef COORDINATOR_STORE_RESERVE_H
#define COORDINATOR_STORE_RESERVE_H

#include <stdbool.h>

#include "base/err.h"

#define RESERVE_BYTES (8u << 20)

struct reserve; /* one owner, one thread */

/* Remember DIRECTORY/NAME; allocates nothing on the disk. */
NODISCARD int reserve_open(const char *directory, const char *name, struct reserve **out,
                           struct err *err);
void reserve_close(struct reserve **reserve);
/* Make the file if it is missing. ERR_FULL: no space for it now, try again later; no partial file
 * remains. */
NODISCARD int reserve_fill(struct reserve *reserve, struct err *err);
/* The same, but only if the disk has room for it twice, so that a released reserve is not taken
 * again at once. Whether the reserve is there now. */
bool reserve_refill(struct reserve *reserve);
bool reserve_filled(const struct reserve *reserve);
/* Give the space back. false: it was already given. */
bool reserve_release(struct reserve *reserve);

#endif
