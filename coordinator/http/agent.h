/* agent.h: identifies the agent that calls; shared by the routes for agents. The loop's
 * thread only. */
#ifndef COORDINATOR_HTTP_AGENT_H
#define COORDINATOR_HTTP_AGENT_H

#include "coordinator/coordinator.h"

/* The device of ?device=, whose present boot is ?boot=; NULL when the problem was answered. */
const struct device *agent_device(struct coordinator *coordinator, struct http_exchange *exchange);
/* The same for a new call, which shows that the device lives. */
const struct device *agent_caller(struct coordinator *coordinator, struct http_exchange *exchange);

#endif
