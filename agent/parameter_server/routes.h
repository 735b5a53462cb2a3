/* routes.h: the requests of other stages to a member (message_kind.h): their bodies go directly
 * into its buffers, and answers come directly from its parameters. A request for the parameters of
 * a version that does not exist yet is parked. Preallocated; on the receiver's thread only
 * (agent/peer/server.h). */
#ifndef AGENT_PARAMETER_SERVER_ROUTES_H
#define AGENT_PARAMETER_SERVER_ROUTES_H

#include "agent/peer/server.h"

/* Open the routes. A parked request is answered when its version exists, it has waited long enough,
 * or its generation has ended. access is borrowed. ERR_MEMORY. */
NODISCARD int exchange_routes_open(struct access *access, struct peer_routes *out, struct err *err);

#endif
