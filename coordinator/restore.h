/* restore.h: makes the core's first event from the rows of state.db and reconciles the two stores.
 * It deletes blobs without a row and logs rows without a blob. Once, at start, before listening.
 *
 * The stores commit separately, so a crash can leave either without the other. Only before
 * listening is it certain that no upload is about to refer to a blob. */
#ifndef COORDINATOR_RESTORE_H
#define COORDINATOR_RESTORE_H

#include <stdint.h>

#include "base/err.h"

struct coordinator;

/* Feed EVENT_RESTORED. `seed`: entropy of this start. ERR_FORMAT: err names the damaged row. */
NODISCARD int restore_all(struct coordinator *coordinator, uint64_t seed, struct err *err);

#endif
