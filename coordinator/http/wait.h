/* wait.h: answers GET of an object or of a list: at once, or with ?after=<revision>&wait=<seconds>
 * when it has a newer revision. */
#ifndef COORDINATOR_HTTP_WAIT_H
#define COORDINATOR_HTTP_WAIT_H

#include "coordinator/http/list.h"
#include "coordinator/http/parked.h"

struct coordinator;

/* Read `after` and `wait`, then check the object or park the request. At the end of the wait `look`
 * answers with the current object. */
void wait_for_object(struct parked *parked, struct http_exchange *exchange, enum object_kind kind,
                     const char *id, parked_look_fn look);

/* The same for the list of all objects of a kind, whose form has `waits`. The request waits for a
 * change of any object of the kind, even one that does not match the query. `look` answers if
 * wait_list_is_new. */
void wait_for_list(struct coordinator *coordinator, struct http_exchange *exchange,
                   enum object_kind kind, const struct list_form *form, parked_look_fn look);
/* Return whether the list's revision differs from `after`, or the wait has ended (`last`). */
bool wait_list_is_new(const struct coordinator *coordinator, enum object_kind kind, int64_t after,
                      bool last);

#endif
