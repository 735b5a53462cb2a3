#include "coordinator/core/placement/strategy.h"

#include "coordinator/core/placement/parameter_server.h"
#include "coordinator/core/placement/pipeline.h"

const struct strategy *strategy_of(enum job_strategy strategy)
{
    static const struct strategy *const rows[] = {
        [STRATEGY_PIPELINE] = &pipeline_strategy,
        [STRATEGY_SUBMODEL] = &pipeline_strategy,
        [STRATEGY_GOSSIP] = &pipeline_strategy,
        [STRATEGY_PARAMETER_SERVER] = &parameter_server_strategy,
    };
    STRATEGY_TABLE_CHECK(rows);
    return rows[strategy];
}
