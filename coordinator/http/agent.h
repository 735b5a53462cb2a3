/* agent.h: identifies the agent that calls; shared by the routes for agents. The loop's
 * thread only. */
#ifndef COORDINATOR_HTTP_AGENT_H
#define COORDINATOR_HTTP_AGENT_H

#include "base/record.h"
#include "coordinator/coordinator.h"

/* Read the body of a machine that is not known yet, by the protocol version that it states. An
 * unsupported version is reported first, because the tables of another version would reject the
 * rest. false: a problem was sent. */
bool agent_read_body(struct http_exchange *exchange, const struct record *record, void *out);
/* Check whether the client has this key. With TLS the client's certificate must have it, so that
 * the id and the boot of a device, or a recorded request, are not enough. Without TLS there is no
 * proof, and the answer is true. false: a problem was sent and logged. */
bool agent_has_key(struct http_exchange *exchange, const char *public_key, const char *name);
/* Return the device with this key; NULL: none. */
const struct device *agent_of_key(const struct coordinator *coordinator, const char *public_key);
/* Return the device of ?device=, whose present boot must be ?boot=; NULL: a problem was sent. */
const struct device *agent_device(struct coordinator *coordinator, struct http_exchange *exchange);
/* The same for a new call, which is also a sign of life of the device. */
const struct device *agent_caller(struct coordinator *coordinator, struct http_exchange *exchange);

#endif
