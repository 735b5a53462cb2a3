/* replica.h: the routes of snapshots on the peer server: replicas in, snapshots out. Its functions
 * run on the receiver thread.
 *
 * GET /peer/v1/{job}/{generation}/snapshots/{version}/{unit}: the blob.
 *
 * PUT /peer/v1/{job}/{generation}/snapshots/{version}/{unit}?sha256=H&bytes=N: body: the blob of N
 * bytes, streamed into its memory, hashed on the way, acknowledged (204) when it is what H says and
 * held (in a file: durable). No body: "the same bytes as you hold of this unit": 204, or 404
 * unknown_blob: send it. 409 stale, 422 another hash, 503 not in that generation yet or busy, 507
 * no room. */
#ifndef AGENT_COPIES_SNAPSHOT_ROUTES_H
#define AGENT_COPIES_SNAPSHOT_ROUTES_H

#include "agent/peer/access.h"
#include "agent/copies/snapshot.h"
#include "net/http_server.h"

#define REPLICA_ROUTES 2
#define REPLICAS_AT_ONCE 8 /* bodies under way, either way */

struct replica_pool;
/* access and snapshots are borrowed. */
NODISCARD int replica_pool_new(struct access *access, struct snapshot_store *snapshots,
                               struct replica_pool **out, struct err *err);
/* After the server's end. Waits for what is being written. */
void replica_pool_free(struct replica_pool **pool);

/* For peer_server_open; their context is the pool. */
extern const struct http_route replica_routes[REPLICA_ROUTES];

#endif
