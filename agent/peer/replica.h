/* replica.h: replicas on their way in, and snapshots out of files. Used by the receiver thread
 * (server.c) only.
 *
 * PUT /peer/v1/{job}/{generation}/snapshots/{version}/{unit}?sha256=H&bytes=N: body: the blob of N
 * bytes, streamed into its memory, hashed on the way, acknowledged (204) when it is what H says and
 * held (in a file: durable). No body: "the same bytes as you hold of this unit": 204, or 404
 * unknown_blob: send it. 409 stale, 422 another hash, 503 not in that generation yet or busy, 507
 * no room. */
#ifndef AGENT_PEER_REPLICA_H
#define AGENT_PEER_REPLICA_H

#include "agent/peer/access.h"
#include "agent/runtime/snapshot.h"
#include "net/http_server.h"

#define REPLICAS_AT_ONCE 8 /* bodies under way, either way */

struct replica_pool;
/* access and snapshots are borrowed. */
NODISCARD int replica_pool_new(struct access *access, struct snapshot_store *snapshots,
                               struct replica_pool **out, struct err *err);
/* After the server's end. Waits for what is being written. */
void replica_pool_free(struct replica_pool **pool);

/* The server's context begins with a struct receive_context (receive.h). */
extern const struct http_sink replica_sink;

/* Answer a GET with a snapshot that is in a file; takes the reference. When its bytes turn out not
 * to be what its hash says, the answer is broken off before its end and the snapshot is held no
 * longer. */
void replica_answer(struct replica_pool *pool, struct http_exchange *exchange,
                    const struct snapshot *snapshot);

#endif
