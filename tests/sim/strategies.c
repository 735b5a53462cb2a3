/* The strategies of the simulator (run.h). */
#include "tests/sim/pipeline.h"
#include "tests/sim/servers.h"

/* The parts of a job of sub-models, and groups that mix, are pipelines. */
const struct run_row *run_row_of(enum job_strategy strategy)
{
    static const struct run_row *const rows[] = {
        [STRATEGY_PIPELINE] = &pipeline_row,
        [STRATEGY_SUBMODEL] = &pipeline_row,
        [STRATEGY_PARAMETER_SERVER] = &servers_row,
        [STRATEGY_GOSSIP] = &pipeline_row,
    };
    STRATEGY_TABLE_CHECK(rows);
    return rows[strategy];
}
