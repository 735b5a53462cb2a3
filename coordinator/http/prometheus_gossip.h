/* prometheus_gossip.h: the samples of GET /metrics about groups that train apart. The loop's
 * thread.
 */
#ifndef COORDINATOR_HTTP_PROMETHEUS_GOSSIP_H
#define COORDINATOR_HTTP_PROMETHEUS_GOSSIP_H

#include "base/exposition.h"
#include "coordinator/core/core.h"

void prometheus_gossip(struct exposition *out, const struct core *core);

#endif
