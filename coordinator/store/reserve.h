/* reserve.h: reserves disk space by a preallocated file beside state.db. When the disk is full, the
 * store releases it, so that objects stay writable. Private to coordinator/store. */
#ifndef COORDINATOR_STORE_RESERVE_H
#define COORDINATOR_STORE_RESERVE_H

#include <stdbool.h>

#include "base/err.h"

#define RESERVE_BYTES (8u << 20)

struct reserve; /* one owner, one thread */

/* Set the file to DIRECTORY/NAME; allocates nothing on the disk. */
NODISCARD int reserve_open(const char *directory, const char *name, struct reserve **out,
                           struct err *err);
void reserve_close(struct reserve **reserve);
/* Create the file if it is missing. ERR_FULL: no space for it now, retry later; no partial file
 * remains. */
NODISCARD int reserve_fill(struct reserve *reserve, struct err *err);
/* The same, but only if the disk has room for two such files, so that a released reserve is not
 * taken again at once. Returns whether the reserve exists now. */
bool reserve_refill(struct reserve *reserve);
bool reserve_filled(const struct reserve *reserve);
/* Release the space to the file system. false: it was already released. */
bool reserve_release(struct reserve *reserve);

#endif
