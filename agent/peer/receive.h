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

/* Routes that others add to the server's own. */
enum receive_more { RECEIVE_SNAPSHOTS, RECEIVE_STRATEGIES, RECEIVE_MIXES, RECEIVE_MORE };

/* Bodies of PUT; the server's context begins with this. */
struct receive_context {
    struct receive_pool *pool;
    void *more[RECEIVE_MORE]; /* the contexts of those routes */
};
static inline void *receive_more(void *context, enum receive_more more)
{
    return ((struct receive_context *)context)->more[more];
}
extern const struct http_sink receive_sink;

/* Let all that wait for a slot try again. */
void receive_retry(struct receive_pool *pool);
/* When the first one has waited long enough, for a poll: -1 for never. */
int receive_timeout_ms(const struct receive_pool *pool);

#endif
