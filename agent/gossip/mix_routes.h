/* mix_routes.h: the requests of other groups to a mixer, in the generation of this group's job:
 *
 *     GET /peer/v1/{job}/{generation}/mixes/{life}-{counter}/{first}/{end}     its copy for a match
 *     GET /peer/v1/{job}/{generation}/averages/{life}-{counter}/{first}/{end}  the average of it
 *
 * for the units [first, end), which are all of them. A request for a copy or average that does not
 * exist yet is parked. Bodies (mix_body.h) are sent from the mixer's memory. 503: not yet; 410: the
 * match has ended without one. Preallocated except for headers; on the receiver's thread only
 * (agent/peer/server.h). */
#ifndef AGENT_GOSSIP_MIX_ROUTES_H
#define AGENT_GOSSIP_MIX_ROUTES_H

#include "agent/peer/server.h"

/* Open the routes. A parked request is answered when its data exists, it has waited long enough, or
 * its generation has ended. access is borrowed. ERR_MEMORY. */
NODISCARD int mix_routes_open(struct access *access, struct peer_routes *out, struct err *err);

#endif
