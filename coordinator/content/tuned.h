/* tuned.h: the kernels that a job's devices have measured become part of its model: another
 * description, stored in the transaction of the job's row. */
#ifndef COORDINATOR_CONTENT_TUNED_H
#define COORDINATOR_CONTENT_TUNED_H

#include "base/err.h"

struct coordinator;

/* Make the description; the answer, good or bad, comes as EVENT_TUNED in a turn of its own, unless
 * the program ends before. A job whose devices measure no longer is left alone. The loop's thread.
 * ERR_MEMORY. */
NODISCARD int tuned_start(struct coordinator *coordinator, const char *job_id, struct err *err);

#endif
