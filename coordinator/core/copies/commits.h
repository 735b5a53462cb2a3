/* commits.h: commits complete rounds and answers the requests of the lead, the plan's first keeper.
 */
#ifndef COORDINATOR_CORE_COPIES_COMMITS_H
#define COORDINATOR_CORE_COPIES_COMMITS_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* Commit the open rounds for which the reports of devices prove every copy. */
void commits_check(struct core *core, struct job_slot *job);
/* Take the rounds that the lead proposes, and write the answer into the heartbeat reply. */
void commits_take(struct core *core, const struct device_slot *device,
                  const struct heartbeat *heartbeat);

#endif
