/* agent.h: identifies the agent that calls; shared by the routes for agents. The loop's
 * thread only. */
#ifndef COORDINATOR_HTTP_AGENT_H
#define COORDINATOR_HTTP_AGENT_H

#include "base/record.h"
#include "coordinator/coordinator.h"

/* Read the body of a machine that is not known yet, by the version of the protocol that it states:
 * another version is reported before tables of a wrong version reject the rest. false: a problem
 * was answered. */
bool agent_read_body(struct http_exchange *exchange, const struct record *record, void *out);
/* Whether the client has this key. With TLS its certificate must have it: who learned the id and
 * the boot of a device, or recorded a request, has not. Without TLS nothing is proven: true. false:
 * a problem was answered and logged. */
bool agent_has_key(struct http_exchange *exchange, const char *public_key, const char *name);
/* The device of a key; NULL: none. */
const struct device *agent_of_key(const struct coordinator *coordinator, const char *public_key);
/* The device of ?device=, whose present boot is ?boot=; NULL when the problem was answered. */
const struct device *agent_device(struct coordinator *coordinator, struct http_exchange *exchange);
/* The same for a new call, which shows that the device lives. */
const struct device *agent_caller(struct coordinator *coordinator, struct http_exchange *exchange);

#endif
