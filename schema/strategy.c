#include "schema/strategy.h"

#include <stddef.h>

const char *const job_strategy_names[] = {
    [STRATEGY_PIPELINE] = "pipeline",
    [STRATEGY_SUBMODEL] = "submodel",
    [STRATEGY_PARAMETER_SERVER] = "parameter_server",
    NULL,
};
