/* servers_improve.h: a local search for other servers and boundaries. For coordinator/plan/ only.
 * Pure. */
#ifndef COORDINATOR_PLAN_SERVERS_IMPROVE_H
#define COORDINATOR_PLAN_SERVERS_IMPROVE_H

#include "coordinator/plan/servers_trial.h"

/* Try to replace, exchange, add and remove single servers of scratch->best and to move single
 * boundaries, with its workers. One more server must gain more than the tie rule's share. Return
 * whether a change was faster: then scratch->best has it. */
bool servers_improve(struct servers_scratch *scratch);

#endif
