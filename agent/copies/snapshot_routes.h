/* snapshot_routes.h: the routes of the peer server that receive replicas and send snapshots. They
 * run on the receiver thread.
 *
 * GET /peer/v1/{job}/{generation}/snapshots/{version}/{unit}: the blob.
 *
 * PUT of the same path with ?sha256=H&bytes=N and a body stores a replica. The body is streamed
 * into its memory and hashed on the way; 204 when it matches H and is held (in a file: durable).
 * Without a body the request asks to hold the same bytes of this unit under another version: 204,
 * or 404 unknown_blob, after which the sender sends the bytes. Problems: 409 stale, 422 another
 * hash, 503 not in that generation yet or busy, 507 no room. */
#ifndef AGENT_COPIES_SNAPSHOT_ROUTES_H
#define AGENT_COPIES_SNAPSHOT_ROUTES_H

#include "agent/copies/snapshot.h"
#include "agent/peer/server.h"

#define REPLICAS_AT_ONCE 8 /* bodies under way, in both directions */

/* access and snapshots are borrowed. */
NODISCARD int snapshot_routes_open(struct access *access, struct snapshot_store *snapshots,
                                   struct peer_routes *out, struct err *err);

#endif
