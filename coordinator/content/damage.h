/* damage.h: what happens when a blob of the center is found damaged: who has that content is looked
 * up, logged and told to the core. The loop's thread only. */
#ifndef COORDINATOR_CONTENT_DAMAGE_H
#define COORDINATOR_CONTENT_DAMAGE_H

#include "base/err.h"

struct coordinator;

/* Something went wrong when the blob was read. Does nothing unless it is damaged and that was not
 * reported before. */
void damage_report(struct coordinator *coordinator, const char *sha256);
/* Read every blob of the store once, on a worker, and report those that are damaged. */
NODISCARD int damage_search(struct coordinator *coordinator, struct err *err);

#endif
