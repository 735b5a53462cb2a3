/* wait.h: GET of one object, at once or with ?after=<revision>&wait=<seconds> when it gets a newer
 * revision. */
#ifndef COORDINATOR_HTTP_WAIT_H
#define COORDINATOR_HTTP_WAIT_H

#include "coordinator/http/parked.h"

/* Read `after` and `wait`, then check or park. At the end of the wait, look answers with the
 * current object. */
void wait_for_object(struct parked *parked, struct http_exchange *exchange, enum object_kind kind,
                     const char *id, parked_look_fn look);

#endif
