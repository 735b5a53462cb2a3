/* answers.h: what every route of a peer reads first, whether a caller is let in, and the problems
 * that they answer with. The receiver's thread. */
#ifndef AGENT_PEER_ANSWERS_H
#define AGENT_PEER_ANSWERS_H

#include "agent/peer/access.h"
#include "net/http_server.h"

/* Whether the request's job, generation and ticket let it in, and whose ticket it is (NULL: not
 * asked); false when a problem was answered. */
bool answers_let_in(struct access *access, struct http_exchange *exchange, int64_t *generation,
                    struct device_id *caller);
/* The work that such a request is let in to, a reference to be released; NULL when a problem was
 * answered. */
struct work *answers_work(struct access *access, struct http_exchange *exchange,
                          struct device_id *caller);
/* Reply with a problem; code is a word ("invalid_parameter"), detail a sentence. */
void answers_problem(struct http_exchange *exchange, int status, const char *code,
                     const char *detail);
/* Read a number of the path; false when a problem was answered. */
bool answers_number(struct http_exchange *exchange, const char *name, int64_t *out);
/* The ticket of a request; NULL: none. */
const char *answers_bearer(const struct http_exchange *exchange);

#endif
