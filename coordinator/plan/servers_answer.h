/* servers_answer.h: the best trial as a plan. For coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_SERVERS_ANSWER_H
#define COORDINATOR_PLAN_SERVERS_ANSWER_H

#include "coordinator/plan/servers_trial.h"

/* Write scratch->best, of which the servers are in the pool. Idle devices are the caller's. */
void servers_answer_write(struct servers_scratch *scratch, struct servers_plan *out);

#endif
