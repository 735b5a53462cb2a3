/* receive.h: one received tensor, from the first header to its slot. Preallocated, one per
 * connection; used by the receiver thread only (server.c). */
#ifndef AGENT_PEER_RECEIVE_H
#define AGENT_PEER_RECEIVE_H

#include "agent/peer/access.h"
#include "net/http_server.h"

#define RECEIVES_MAX 64 /* connections */

struct receive_pool;
NODISCARD int receive_pool_new(struct access *access, struct receive_pool **out, struct err *err);
void receive_pool_free(struct receive_pool **pool);

/* Bodies of PUT; its context is the pool. */
extern const struct http_sink receive_sink;

/* Retry all tensors that wait for a slot. */
void receive_retry(struct receive_pool *pool);
/* Return the timeout of a poll until the first waiting tensor has waited long enough; -1: never. */
int receive_timeout_ms(const struct receive_pool *pool);

#endif
