/* work_table.h: the strategies of an agent. */
#ifndef AGENT_WORK_TABLE_H
#define AGENT_WORK_TABLE_H

#include "agent/runtime/work.h"
#include "schema/submodel.h"

/* Return how a device trains for jobs of a strategy. The parts of a job of sub-models are
 * pipelines. */
const struct work_row *work_table_row(enum job_strategy strategy);

#endif
