/* wait.h: GET of an object or of a list, at once or with ?after=<revision>&wait=<seconds> when it
 * gets a newer revision. */
#ifndef COORDINATOR_HTTP_WAIT_H
#define COORDINATOR_HTTP_WAIT_H

#include "coordinator/http/list.h"
#include "coordinator/http/parked.h"

struct coordinator;

/* Read `after` and `wait`, then check or park. At the end of the wait, look answers with the
 * current object. */
void wait_for_object(struct parked *parked, struct http_exchange *exchange, enum object_kind kind,
                     const char *id, parked_look_fn look);

/* The same for the list of all objects of a kind; its form has `waits`. It waits for a change of
 * any object of the kind, whatever the query asks for. `look` is to answer if wait_list_is_new. */
void wait_for_list(struct coordinator *coordinator, struct http_exchange *exchange,
                   enum object_kind kind, const struct list_form *form, parked_look_fn look);
/* Whether the list has another revision than `after`, or the wait is over (`last`). */
bool wait_list_is_new(const struct coordinator *coordinator, enum object_kind kind, int64_t after,
                      bool last);

#endif
