/* access.h: decides who may call a route, by bearer tokens, their roles and their shares of the
 * service. Until the first token exists, every client may do everything. The loop's thread only. */
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

/* Admit a request before its handler runs, and charge it to its caller until access_end. false:
 * refused, and the problem (unauthorized, forbidden, too_many) was sent. */
bool access_admit(struct coordinator *coordinator, struct http_exchange *exchange);
/* Check whether a machine may join with the token of its body. It needs none while requests need no
 * token, or if it has already joined. *token: the join token; NULL: none, or a joined machine's
 * token that is not valid. false: a problem was sent. */
bool access_admit_join(struct coordinator *coordinator, struct http_exchange *exchange,
                       const char *text, bool joined, const struct token **token);
/* Check whether a device that has not joined may enrol; false: a problem was sent. */
bool access_admit_stranger(struct coordinator *coordinator, struct http_exchange *exchange,
                           const char *name);
/* End a request: stop charging it to its caller. */
void access_end(struct coordinator *coordinator, const struct http_exchange *exchange);
/* Charge a stream or an upload to the caller until the request ends; false: the caller has too
 * many, and a problem was sent. */
bool access_take(struct coordinator *coordinator, struct http_exchange *exchange,
                 enum share_kind kind);
/* Check the quotas of the caller's token; false: a problem was sent. access_check_bytes: before the
 * first byte of an upload. access_spend_bytes: count bytes as they arrive, with or without a quota.
 * access_spend_job: right before the event of the job, which spends the quota. */
bool access_check_bytes(struct coordinator *coordinator, struct http_exchange *exchange);
bool access_spend_bytes(struct coordinator *coordinator, struct http_exchange *exchange,
                        size_t bytes);
bool access_spend_job(struct coordinator *coordinator, struct http_exchange *exchange,
                      struct turn_extra *extra);
/* Return the token of the request; NULL: it needed none. */
const struct token *access_token(const struct coordinator *coordinator,
                                 const struct http_exchange *exchange);
/* End all requests except `except` of a token that was revoked or has expired. */
void access_break_off(struct coordinator *coordinator, size_t place,
                      const struct http_exchange *except);
/* End requests of expired tokens, write uses, log refusals. Call it every second. */
void access_look(struct coordinator *coordinator);

#endif
