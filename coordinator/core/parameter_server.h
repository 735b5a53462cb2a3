/* parameter_server.h: the strategy `parameter_server`: servers, which come first, keep the units;
 * workers compute shares of the micro-batches with all of them. A device may do both. Stage 0 is a
 * server and leads. docs/adr/0139, 0140. */
#ifndef COORDINATOR_CORE_PARAMETER_SERVER_H
#define COORDINATOR_CORE_PARAMETER_SERVER_H

#include "coordinator/core/strategy.h"

extern const struct strategy parameter_server_strategy;

#endif
