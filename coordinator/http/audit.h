/* audit.h: writes a row for each change that a request made, in the transaction of the change.
 * Calls of agents and refused requests get no row. The loop's thread only. */
#ifndef COORDINATOR_HTTP_AUDIT_H
#define COORDINATOR_HTTP_AUDIT_H

#include <stdint.h>

#include "base/err.h"
#include "coordinator/coordinator.h"
#include "schema/audit.h"

/* Continue the ids after the newest row; the state store is open. */
NODISCARD int audit_open(struct coordinator *coordinator, uint64_t seed, struct err *err);
/* Record the caller and the request, for a change that may outlive the exchange. */
void audit_origin(const struct coordinator *coordinator, const struct http_exchange *exchange,
                  struct audit_entry *out);
/* Store, in the open transaction, that a request changed the object `subject`. origin: that of
 * audit_origin; NULL: the exchange's, and no row if an agent calls. exchange NULL with status 0:
 * the client has left. */
NODISCARD int audit_add(struct coordinator *coordinator, const struct http_exchange *exchange,
                        const struct audit_entry *origin, const char *subject, int status,
                        struct err *err);

#endif
