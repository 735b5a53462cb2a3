/* servers_improve.h: a local search for better servers and boundaries. For coordinator/plan/ only.
 * Pure. */
#ifndef COORDINATOR_PLAN_SERVERS_IMPROVE_H
#define COORDINATOR_PLAN_SERVERS_IMPROVE_H

#include "coordinator/plan/servers_trial.h"

/* Try to replace, exchange, add and remove single servers of scratch->best and to move single
 * boundaries, with the same workers. An additional server must gain more than the tie rule's share.
 * Return whether a change was faster; scratch->best has it then. */
bool servers_improve(struct servers_scratch *scratch);

#endif
