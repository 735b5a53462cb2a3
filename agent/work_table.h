/* work_table.h: the strategies of an agent. */
#ifndef AGENT_WORK_TABLE_H
#define AGENT_WORK_TABLE_H

#include "agent/peer/server.h"
#include "agent/runtime/work.h"
#include "schema/strategy.h"

/* Return how a device trains for jobs of a strategy. The parts of a job of sub-models are
 * pipelines. */
const struct work_row *work_table_row(enum job_strategy strategy);

/* The routes that strategies add to those of the peer side, RECEIVE_STRATEGIES and RECEIVE_MIXES;
 * access is borrowed. work_table_close after the server is closed. ERR_MEMORY. */
NODISCARD int work_table_open(struct access *access, struct peer_routes out[RECEIVE_MORE],
                              struct err *err);
void work_table_close(struct peer_routes routes[RECEIVE_MORE]);

#endif
