/* harvested.h: assembles the model of a parent from the models of its trained parts, on a worker
 * thread. */
#ifndef COORDINATOR_CONTENT_HARVESTED_H
#define COORDINATOR_CONTENT_HARVESTED_H

#include "base/err.h"

struct coordinator;

/* Start assembling. The result, a success or an error, arrives as EVENT_HARVESTED, unless the
 * program ends first. Ignored if the job has ended. The loop's thread. ERR_MEMORY. */
NODISCARD int harvested_start(struct coordinator *coordinator, const char *job_id, struct err *err);

#endif
