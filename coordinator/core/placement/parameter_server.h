/* parameter_server.h: the strategy `parameter_server`. Servers keep the units and are the first
 * stages. Workers compute shares of the micro-batches with all units. A device may do both. Stage 0
 * is a server and leads. docs/adr/0139, 0140. */
#ifndef COORDINATOR_CORE_PLACEMENT_PARAMETER_SERVER_H
#define COORDINATOR_CORE_PLACEMENT_PARAMETER_SERVER_H

#include "coordinator/core/placement/strategy.h"

extern const struct strategy parameter_server_strategy;

#endif
