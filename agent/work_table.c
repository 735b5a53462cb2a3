#include "agent/work_table.h"

#include "agent/gossip/mix_routes.h"
#include "agent/parameter_server/parameter_server_work.h"
#include "agent/parameter_server/routes.h"
#include "agent/pipeline/pipeline_work.h"

const struct work_row *work_table_row(enum job_strategy strategy)
{
    static const struct work_row *const rows[] = {
        [STRATEGY_PIPELINE] = &pipeline_work,
        [STRATEGY_SUBMODEL] = &pipeline_work,
        [STRATEGY_GOSSIP] = &pipeline_work,
        [STRATEGY_PARAMETER_SERVER] = &parameter_server_work,
    };
    STRATEGY_TABLE_CHECK(rows);
    return rows[strategy];
}

int work_table_open(struct access *access, struct peer_routes out[WORK_ROUTES_MAX], size_t *count,
                    struct err *err)
{
    static int (*const open[WORK_ROUTES_MAX])(struct access * access, struct peer_routes * out,
                                              struct err * err) = {
        [STRATEGY_GOSSIP] = mix_routes_open,
        [STRATEGY_PARAMETER_SERVER] = exchange_routes_open,
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < WORK_ROUTES_MAX; i++) {
        rc = open[i] ? open[i](access, &out[*count], err) : 0;
        *count += rc == 0 && open[i];
    }
    return rc;
}
