/* weighing.h: weighs retraining from an older version against waiting for a link. */
#ifndef COORDINATOR_CORE_FAILURES_WEIGHING_H
#define COORDINATOR_CORE_FAILURES_WEIGHING_H

#include "coordinator/core/core.h"

struct job_slot;

/* Return the version from which the plan in core->planned starts: `start`, or an older one (with
 * job->cut). It chooses the older one if a bad link blocks `start` or devices failed to load it,
 * and waiting takes as long as retraining the steps in between. Never 0 in place of a held
 * version. */
int64_t weighing_start(struct core *core, struct job_slot *job, int64_t start);

#endif
