/* early_stops.h: ends jobs whose evaluations meet their rule before the last step. */
#ifndef COORDINATOR_CORE_GENERATION_EARLY_STOPS_H
#define COORDINATOR_CORE_GENERATION_EARLY_STOPS_H

#include "coordinator/core/core.h"

struct job_slot;

/* Set the last step of a job that is new or restored. */
void early_stops_init(struct job_slot *job);
/* Take the verdict of a stage of the present generation on the evaluations so far. */
void early_stops_take(struct core *core, struct job_slot *job, const struct heartbeat *heartbeat);
/* Write why the job ended before its last step. Return whether it did. */
bool early_stops_reason(const struct job_slot *job, char out[MESSAGE_SIZE]);

#endif
