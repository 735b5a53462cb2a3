/* status.h: the numbers of GET /metrics on an agent. The control thread notes the content of its
 * heartbeats; the peer server's thread writes it as text. A lock guards it. */
#ifndef AGENT_STATUS_H
#define AGENT_STATUS_H

#include <stdint.h>

#include "base/err.h"
#include "base/exposition.h"
#include "schema/heartbeat.h"

struct status;

/* name: of the device. */
NODISCARD int status_new(const char *name, struct status **out, struct err *err);
void status_free(struct status **status);

/* Note a heartbeat that is about to be sent. Its transfers and troubles are those since the
 * previous heartbeat. */
void status_beat(struct status *status, const struct heartbeat *heartbeat);
/* Note that the coordinator has answered a call. */
void status_answered(struct status *status);
/* Set the number of the job's metrics that were lost since the start. */
void status_metrics_lost(struct status *status, uint64_t count);

/* Write all metrics; arg is the struct status. Any thread. */
void status_write(void *arg, struct exposition *out);

#endif
