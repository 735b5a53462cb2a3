/* pipeline_check.h: whether the numbers of a stage fit together. Pure; for pipeline.c. */
#ifndef AGENT_CORE_PIPELINE_CHECK_H
#define AGENT_CORE_PIPELINE_CHECK_H

#include "agent/core/pipeline_task.h"
#include "base/err.h"

/* ERR_INVALID names the number. */
NODISCARD int pipeline_check(const struct pipeline_config *config, struct err *err);

#endif
