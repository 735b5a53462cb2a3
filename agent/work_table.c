#include "agent/work_table.h"

#include "agent/parameter_server/parameter_server_work.h"
#include "agent/pipeline/pipeline_work.h"

const struct work_row *work_table_row(enum job_strategy strategy)
{
    static const struct work_row *const rows[] = {
        [STRATEGY_PIPELINE] = &pipeline_work,
        [STRATEGY_SUBMODEL] = &pipeline_work,
        [STRATEGY_PARAMETER_SERVER] = &parameter_server_work,
    };
    return rows[strategy];
}
