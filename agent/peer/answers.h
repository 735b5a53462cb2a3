/* answers.h: the first checks of every route for peers: path, ticket and access of the caller, and
 * the problems that the routes answer with. The receiver's thread. */
#ifndef AGENT_PEER_ANSWERS_H
#define AGENT_PEER_ANSWERS_H

#include "agent/peer/access.h"
#include "net/http_server.h"

/* Check that the request's job, generation and ticket allow it. caller: out, the owner of the
 * ticket; NULL: not needed. false: a problem was answered. */
bool answers_let_in(struct access *access, struct http_exchange *exchange, int64_t *generation,
                    struct device_id *caller);
/* Make the same check and return the work of the request, as a reference to be released; NULL: a
 * problem was answered. */
struct work *answers_work(struct access *access, struct http_exchange *exchange,
                          struct device_id *caller);
/* Reply with a problem; code is a word ("invalid_parameter"), detail a sentence. */
void answers_problem(struct http_exchange *exchange, int status, const char *code,
                     const char *detail);
/* Read a number of the path; false: a problem was answered. */
bool answers_number(struct http_exchange *exchange, const char *name, int64_t *out);
/* Return the ticket of a request; NULL: none. */
const char *answers_bearer(const struct http_exchange *exchange);

#endif
