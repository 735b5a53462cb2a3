/* links.h: the transfer sums (core/timing) of snapshots sent to peers and fetched from them, for
 * all threads of the device. Never waits; allocates in links_new only. Any thread. */
#ifndef AGENT_RUNTIME_LINKS_H
#define AGENT_RUNTIME_LINKS_H

#include "agent/core/timing.h"
#include "base/err.h"

struct links;
NODISCARD int links_new(struct links **out, struct err *err);
void links_free(struct links **links);
/* As timing_transfer_add and timing_transfers_report. */
void links_note(struct links *links, enum link_kind kind, const struct device_id *device,
                double bytes, double seconds);
void links_report(struct links *links, struct heartbeat *out);

#endif
