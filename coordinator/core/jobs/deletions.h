/* deletions.h: deletes what users have stored, unless a live job uses it. Handlers of their
 * events. */
#ifndef COORDINATOR_CORE_JOBS_DELETIONS_H
#define COORDINATOR_CORE_JOBS_DELETIONS_H

#include "coordinator/core/core.h"

void deletions_on_delete(struct core *core, const struct event *event);

#endif
