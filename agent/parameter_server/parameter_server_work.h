/* parameter_server_work.h: the row of the strategy parameter_server (agent/runtime/work.h). */
#ifndef AGENT_PARAMETER_SERVER_WORK_H
#define AGENT_PARAMETER_SERVER_WORK_H

#include "agent/runtime/work.h"

extern const struct work_row parameter_server_work;

#endif
