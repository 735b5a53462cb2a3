/* work_table.h: the strategies of an agent. */
#ifndef AGENT_WORK_TABLE_H
#define AGENT_WORK_TABLE_H

#include "agent/peer/server.h"
#include "agent/runtime/work.h"
#include "schema/strategy.h"

/* Return how a device trains for jobs of a strategy. The parts of a job of sub-models are
 * pipelines. */
const struct work_row *work_table_row(enum job_strategy strategy);

#define WORK_ROUTES_MAX STRATEGY_COUNT

/* Add the routes of strategies to out[*count], also in part; access is borrowed. ERR_MEMORY. */
NODISCARD int work_table_open(struct access *access, struct peer_routes out[WORK_ROUTES_MAX],
                              size_t *count, struct err *err);

#endif
