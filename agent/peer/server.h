/* server.h: the agent's HTTP listener for its peers, and its thread "peer", the receiver.
 *
 * PUT /peer/v1/{job}/{generation}/{step}/{micro_batch}/{boundary}/{kind}   a tensor, see message.h
 * GET /peer/v1/{job}/{generation}/ping                                     204
 * GET /metrics                                                             for Prometheus
 *
 * and the routes that its owner adds, such as those of snapshots. Every request to these routes
 * carries `Authorization: Bearer TICKET`. Problems: 401 and 403 wrong ticket, 409 older generation,
 * 503 newer generation or no room in time, 422 an unexpected tensor or a body that does not match
 * its path. */
#ifndef AGENT_PEER_SERVER_H
#define AGENT_PEER_SERVER_H

#include "agent/peer/access.h"
#include "agent/peer/receive.h"
#include "base/exposition.h"
#include "net/address.h"
#include "net/http_server.h"

#define PEER_ROUTES_MAX 16

/* The text of GET /metrics; write produces it on the server's thread. Clients on this machine may
 * read it without a token, others need the token; token "": others may not read it. */
struct peer_metrics {
    void (*write)(void *arg, struct exposition *out);
    void *arg;
    const char *token;
};

/* Routes that others add to the server's own. */
struct peer_routes {
    const struct http_route *route;
    size_t count;
    void *context; /* of their handlers and sinks, and of the next */
    /* Called on the server's thread when the room descriptor was written to, or after timeout_ms
     * (-1: never); NULL: not called. */
    void (*retry)(void *context);
    int (*timeout_ms)(const void *context);
    void (*free)(void *context); /* after peer_server_close */
};

/* All pointers are borrowed until peer_server_close. */
struct peer_server_config {
    struct address listen;
    struct tls_server tls; /* certificate NULL: without TLS */
    struct access *access;
    const struct peer_routes *more; /* [more_count]; PEER_ROUTES_MAX with the server's own */
    size_t more_count;
    struct peer_metrics metrics; /* write NULL: no such route */
};

struct peer_server;

/* Listen and start the thread. */
NODISCARD int peer_server_open(const struct peer_server_config *config, struct peer_server **out,
                               struct err *err);
void peer_server_close(struct peer_server **server);
/* Return the actual listen address. */
const struct address *peer_server_address(const struct peer_server *server);
/* Take a connection from a relay, as if it had been accepted. fd is taken. Any thread. */
void peer_server_adopt(struct peer_server *server, int fd);
/* Return the descriptor to which stages write when a slot is free again (stage_config.room_fd). */
int peer_server_room_fd(const struct peer_server *server);

#endif
