/* damage.h: handles a damaged blob of the center: finds its owners, logs them and reports them
 * to the core. The loop's thread only. */
#ifndef COORDINATOR_CONTENT_DAMAGE_H
#define COORDINATOR_CONTENT_DAMAGE_H

#include "base/err.h"

struct coordinator;

/* Call this after a failed read. Does nothing unless the blob is damaged and not reported yet. */
void damage_report(struct coordinator *coordinator, const char *sha256);
/* Read every blob of the store once, on a worker, and report the damaged ones. */
NODISCARD int damage_search(struct coordinator *coordinator, struct err *err);

#endif
