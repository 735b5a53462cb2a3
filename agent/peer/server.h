/* server.h: the agent's own small HTTP listener and its thread, the receiver: tensors into slots,
 * snapshots out, pings.
 *
 * PUT /peer/v1/{job}/{generation}/{step}/{micro_batch}/{boundary}/{kind}     see message.h
 * GET /peer/v1/{job}/{generation}/snapshots/{version}/{unit}                 a blob
 * PUT the same                                                               a replica, see
 * replica.h GET /peer/v1/{job}/{generation}/ping                                       204 All with
 * `Authorization: Bearer TICKET`. Problems: 401 and 403 wrong ticket, 409 older generation, 503
 * newer one or no room in time, 422 a tensor that is not expected here, or a body that is not what
 * the path says. */
#ifndef AGENT_PEER_SERVER_H
#define AGENT_PEER_SERVER_H

#include "agent/peer/access.h"
#include "agent/runtime/snapshot.h"
#include "net/address.h"

/* How long a tensor waits for its slot before it is answered 503. */
#define PEER_PARK_MS 2000

struct peer_server;

/* Listens and starts the thread. access and snapshots are borrowed. */
NODISCARD int peer_server_open(const struct address *listen, struct access *access,
                               struct snapshot_store *snapshots, struct peer_server **out,
                               struct err *err);
void peer_server_close(struct peer_server **server);
/* Where it really listens. */
const struct address *peer_server_address(const struct peer_server *server);
/* What stages write to when a slot is free again (stage_config.room_fd). */
int peer_server_room_fd(const struct peer_server *server);

#endif
