/* damage.h: handles a damaged blob in the center. */
#ifndef COORDINATOR_CORE_COPIES_DAMAGE_H
#define COORDINATOR_CORE_COPIES_DAMAGE_H

#include "coordinator/core/core.h"

/* Drop the versions that have the damaged blob (EVENT_BLOB_DAMAGED). */
void damage_on_blob(struct core *core, const struct event *event);

#endif
