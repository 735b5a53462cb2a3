/* tuned.h: writes the kernels that a job's devices have measured into its model description,
 * which is stored in the transaction of the job's row. */
#ifndef COORDINATOR_CONTENT_TUNED_H
#define COORDINATOR_CONTENT_TUNED_H

#include "base/err.h"

struct coordinator;

/* Make the description. The result, a success or an error, arrives as EVENT_TUNED in a turn of its
 * own, unless the program ends first. Ignored if the job no longer measures. The loop's thread.
 * ERR_MEMORY. */
NODISCARD int tuned_start(struct coordinator *coordinator, const char *job_id, struct err *err);

#endif
