/* routes.h: the requests of other stages to a member (message_kind.h): their bodies go directly
 * into its buffers, answers come directly from its parameters. A request for parameters of a
 * version that is not there yet is parked. Preallocated; on the receiver's thread only
 * (agent/peer/server.h). */
#ifndef AGENT_PARAMETER_SERVER_ROUTES_H
#define AGENT_PARAMETER_SERVER_ROUTES_H

#include "agent/peer/access.h"
#include "net/http_server.h"

struct exchange_routes;
NODISCARD int exchange_routes_new(struct access *access, struct exchange_routes **out,
                                  struct err *err);
void exchange_routes_free(struct exchange_routes **routes);

#define EXCHANGE_ROUTES 2
extern const struct http_route exchange_route_table[EXCHANGE_ROUTES];

/* Answer what is no longer parked: its version is there, it has waited long enough, or its
 * generation has ended: a parked request holds the memory of that. */
void exchange_routes_retry(void *routes);
/* When the first one has waited long enough, for a poll: -1 for never. */
int exchange_routes_timeout_ms(const void *routes);

#endif
