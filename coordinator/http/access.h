/* access.h: who may call a route: bearer tokens, their roles and their shares of the service. Until
 * the first token was made everybody who reaches the coordinator may do everything. The loop's
 * thread only. */
#ifndef COORDINATOR_HTTP_ACCESS_H
#define COORDINATOR_HTTP_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "coordinator/access/shares.h"
#include "coordinator/coordinator.h"
#include "schema/token.h"

struct edge;
struct turn_extra;

/* Read the tokens; the state store is open. */
NODISCARD int access_open(struct coordinator *coordinator, uint64_t seed, struct err *err);
void access_close(struct edge *edge);
/* Log once whether requests need a token. */
void access_log_mode(const struct coordinator *coordinator);

/* Before the handler of a request: false when it was refused (unauthorized, forbidden, too_many).
 * Charges it to its caller until access_end. */
bool access_admit(struct coordinator *coordinator, struct http_exchange *exchange);
/* Whether a machine may join with the token of its body, or without one: while none is needed, or
 * if it has joined already. *token: the join token; NULL: none, or not accepted from one that has
 * joined. false: a problem was answered. */
bool access_admit_join(struct coordinator *coordinator, struct http_exchange *exchange,
                       const char *text, bool joined, const struct token **token);
/* Whether a device may enrol that has not joined; false: a problem was answered. */
bool access_admit_stranger(struct coordinator *coordinator, struct http_exchange *exchange,
                           const char *name);
/* The request is over. */
void access_end(struct coordinator *coordinator, const struct http_exchange *exchange);
/* Charge a stream or an upload to the caller, until the request is over; false: it has too many,
 * and a problem was answered. */
bool access_take(struct coordinator *coordinator, struct http_exchange *exchange,
                 enum share_kind kind);
/* Quotas of the caller's token; false: a problem was answered. Bytes before the first of an upload,
 * and as they arrive, which counts them, of a token with a quota or not; a job right before its
 * event, which spends it. */
bool access_check_bytes(struct coordinator *coordinator, struct http_exchange *exchange);
bool access_spend_bytes(struct coordinator *coordinator, struct http_exchange *exchange,
                        size_t bytes);
bool access_spend_job(struct coordinator *coordinator, struct http_exchange *exchange,
                      struct turn_extra *extra);
/* The token of the request; NULL: it needed none. */
const struct token *access_token(const struct coordinator *coordinator,
                                 const struct http_exchange *exchange);
/* End all other requests of a token: it was revoked, or has expired. */
void access_break_off(struct coordinator *coordinator, size_t place,
                      const struct http_exchange *except);
/* Call it every second: end requests of tokens that have expired, write uses, log refusals. */
void access_look(struct coordinator *coordinator);

#endif
