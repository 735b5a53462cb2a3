/* parked.h: keeps long polls: requests that wait for a newer revision of an object, each with its
 * own deadline (a suspended connection never times out by itself). The loop's thread only. */
#ifndef COORDINATOR_HTTP_PARKED_H
#define COORDINATOR_HTTP_PARKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coordinator/core/action.h"
#include "net/http_server.h"

struct parked;

/* The id of a request that waits for any object of its kind. */
#define PARKED_LIST ""

/* Check whether the wait has ended: answer and return true, or return false. With `last` it must
 * answer, because the deadline is reached. */
typedef bool (*parked_look_fn)(void *context, struct http_exchange *exchange, const char *id,
                               int64_t after, bool last);

/* The client of a parked request hung up: the request ends. */
typedef void (*parked_hangup_fn)(void *context, struct http_exchange *exchange,
                                 enum object_kind kind, const char *id);

NODISCARD int parked_new(size_t capacity, void *context, struct parked **out, struct err *err);
void parked_free(struct parked **parked);
/* Check the object at once. If the wait has not ended, keep the request until parked_wake or until
 * deadline_ms (clock_now_ms). If there is no room for it, answer now. */
void parked_wait(struct parked *parked, struct http_exchange *exchange, enum object_kind kind,
                 const char *id, int64_t after, int64_t deadline_ms, parked_look_fn look);
/* Report hangups from now on. */
void parked_on_hangup(struct parked *parked, parked_hangup_fn fn);
/* Note a change of the object: waiting requests check it in the next parked_run. */
void parked_wake(struct parked *parked, enum object_kind kind, const char *id);
/* Check woken and overdue requests, a bounded number of them. If more are left, the next call is
 * due at once. */
void parked_run(struct parked *parked, int64_t now_ms);
/* Make all requests answer, because the program stops. */
void parked_end(struct parked *parked);
/* Return the next time at which parked_run has work; INT64_MAX: no request waits. */
int64_t parked_deadline_ms(const struct parked *parked);
size_t parked_count(const struct parked *parked);

#endif
