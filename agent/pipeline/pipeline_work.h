/* pipeline_work.h: the strategy pipeline, for the table of strategies (agent/work_table.c). */
#ifndef AGENT_PIPELINE_PIPELINE_WORK_H
#define AGENT_PIPELINE_PIPELINE_WORK_H

#include "agent/runtime/work.h"

extern const struct work_row pipeline_work;

#endif
