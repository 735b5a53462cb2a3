/* derived.h: makes the model descriptions of a parent's parts: the slices of its groups, and the
 * harvested model with frozen units. They are stored in the transaction of the parts' rows. */
#ifndef COORDINATOR_CONTENT_DERIVED_H
#define COORDINATOR_CONTENT_DERIVED_H

#include "base/err.h"

struct coordinator;

/* Make the descriptions for the phase of the parent; the answer, good or bad, comes as
 * EVENT_DERIVED in a turn of its own, unless the program ends first. Ignored if the job has ended
 * meanwhile. The loop's thread. ERR_MEMORY. */
NODISCARD int derived_start(struct coordinator *coordinator, const char *job_id, struct err *err);

#endif
