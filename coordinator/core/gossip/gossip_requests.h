/* gossip_requests.h: the submission of jobs of groups that train apart. */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_REQUESTS_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_REQUESTS_H

#include "coordinator/core/core.h"

void gossip_on_submit(struct core *core, const struct event *event);

#endif
