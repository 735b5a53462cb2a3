#include "schema/strategy.h"

#include <stddef.h>

const char *const job_strategy_names[] = {
    [STRATEGY_PIPELINE] = "pipeline",
    [STRATEGY_SUBMODEL] = "submodel",
    [STRATEGY_PARAMETER_SERVER] = "parameter_server",
    [STRATEGY_GOSSIP] = "gossip",
    NULL,
};

bool strategy_has_parts(int strategy)
{
    return strategy == STRATEGY_SUBMODEL || strategy == STRATEGY_GOSSIP;
}

enum reduction strategy_reduction(int strategy)
{
    static const enum reduction of[] = {
        [STRATEGY_PIPELINE] = REDUCTION_IN_PLACE,
        [STRATEGY_SUBMODEL] = REDUCTION_IN_PLACE,
        [STRATEGY_PARAMETER_SERVER] = REDUCTION_TREE,
        [STRATEGY_GOSSIP] = REDUCTION_IN_PLACE,
    };
    return of[strategy];
}
