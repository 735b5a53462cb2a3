/* servers_answer.h: the best trial as a plan. For coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_SERVERS_ANSWER_H
#define COORDINATOR_PLAN_SERVERS_ANSWER_H

#include "coordinator/plan/servers_trial.h"

/* Write scratch->best, whose servers are in the pool. The caller fills in the idle devices. */
void servers_answer_write(struct servers_scratch *scratch, struct servers_plan *out);

#endif
