/* audit.h: rows of the changes that requests made, each in the transaction of its change. Calls of
 * agents and refused requests make none. The loop's thread only. */
#ifndef COORDINATOR_HTTP_AUDIT_H
#define COORDINATOR_HTTP_AUDIT_H

#include <stdint.h>

#include "base/err.h"
#include "coordinator/coordinator.h"

/* Continue after the newest row; the state store is open. */
NODISCARD int audit_open(struct coordinator *coordinator, uint64_t seed, struct err *err);
/* Store, in the open transaction, that the request changed the object `subject`. */
NODISCARD int audit_add(struct coordinator *coordinator, const struct http_exchange *exchange,
                        const char *subject, int status, struct err *err);

#endif
