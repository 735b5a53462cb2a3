#include "schema/strategy.h"

#include <stddef.h>

const char *const job_strategy_names[] = {
    [STRATEGY_PIPELINE] = "pipeline",
    [STRATEGY_SUBMODEL] = "submodel",
    [STRATEGY_PARAMETER_SERVER] = "parameter_server",
    [STRATEGY_GOSSIP] = "gossip",
    [STRATEGY_COUNT] = NULL,
};

static const struct {
    bool has_parts, has_slices;
    enum reduction reduction;
    int64_t since;
} of[] = {
    [STRATEGY_PIPELINE] = {.reduction = REDUCTION_IN_PLACE, .since = 1},
    [STRATEGY_SUBMODEL] = {true, true, .reduction = REDUCTION_IN_PLACE, .since = 1},
    [STRATEGY_PARAMETER_SERVER] = {.reduction = REDUCTION_TREE, .since = 6},
    [STRATEGY_GOSSIP] = {.has_parts = true, .reduction = REDUCTION_IN_PLACE, .since = 1},
};
STRATEGY_TABLE_CHECK(of);

bool strategy_has_parts(int strategy)
{
    return of[strategy].has_parts;
}

bool strategy_has_slices(int strategy)
{
    return of[strategy].has_slices;
}

enum reduction strategy_reduction(int strategy)
{
    return of[strategy].reduction;
}

int64_t strategy_since(int strategy)
{
    return of[strategy].since;
}
