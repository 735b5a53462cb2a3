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

/* Bodies of PUT; the server's context begins with this. */
struct receive_context {
    struct receive_pool *pool;
    void *more; /* the context of the routes that peer_server_open was given */
};
extern const struct http_sink receive_sink;

/* Let all that wait for a slot try again. */
void receive_retry(struct receive_pool *pool);
/* When the first one has waited long enough, for a poll: -1 for never. */
int receive_timeout_ms(const struct receive_pool *pool);

/* Whether the request's job, generation and ticket let it in; false when a problem was answered. */
bool receive_let_in(struct access *access, struct http_exchange *exchange, int64_t *generation);
/* Reply with the problem of a verdict other than GRANTED. */
void receive_refuse(struct http_exchange *exchange, enum admission_verdict verdict);
/* Reply with a problem; code is a word ("invalid_parameter"), detail a sentence. */
void receive_problem(struct http_exchange *exchange, int status, const char *code,
                     const char *detail);
/* Read a number of the path; false when a problem was answered. */
bool receive_number(struct http_exchange *exchange, const char *name, int64_t *out);
/* The ticket of a request; NULL: none. */
const char *receive_bearer(const struct http_exchange *exchange);

#endif
