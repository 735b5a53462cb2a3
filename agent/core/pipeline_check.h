/* pipeline_check.h: checks that the numbers of a stage are consistent. Pure; for pipeline.c. */
#ifndef AGENT_CORE_PIPELINE_CHECK_H
#define AGENT_CORE_PIPELINE_CHECK_H

#include "agent/core/pipeline_task.h"
#include "base/err.h"

/* Check the configuration. ERR_INVALID names the inconsistent number. */
NODISCARD int pipeline_check(const struct pipeline_config *config, struct err *err);

#endif
