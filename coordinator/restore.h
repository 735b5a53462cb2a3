/* restore.h: the rows of state.db turned into the core's first event, and the two stores
 * reconciled: a blob without a row goes, a row without a blob is reported. Once, at start, before
 * listening. */
#ifndef COORDINATOR_RESTORE_H
#define COORDINATOR_RESTORE_H

#include <stdint.h>

#include "base/err.h"

struct coordinator;

/* Feed EVENT_RESTORED. `seed`: entropy of this start. ERR_FORMAT: a row is damaged; err says which.
 */
NODISCARD int restore_all(struct coordinator *coordinator, uint64_t seed, struct err *err);

#endif
