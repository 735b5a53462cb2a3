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

int work_table_open(struct access *access, struct peer_routes out[RECEIVE_MORE], struct err *err)
{
    struct exchange_routes *exchanges = NULL;
    struct mix_routes *mixes = NULL;
    int rc = exchange_routes_new(access, &exchanges, err);
    rc = rc ? rc : mix_routes_new(access, &mixes, err);
    out[RECEIVE_STRATEGIES] = (struct peer_routes){.route = exchange_route_table,
                                                   .count = EXCHANGE_ROUTES,
                                                   .context = exchanges,
                                                   .retry = exchange_routes_retry,
                                                   .timeout_ms = exchange_routes_timeout_ms};
    out[RECEIVE_MIXES] = (struct peer_routes){.route = mix_route_table,
                                              .count = MIX_ROUTES,
                                              .context = mixes,
                                              .retry = mix_routes_retry,
                                              .timeout_ms = mix_routes_timeout_ms};
    return rc;
}

void work_table_close(struct peer_routes routes[RECEIVE_MORE])
{
    struct exchange_routes *exchanges = routes[RECEIVE_STRATEGIES].context;
    struct mix_routes *mixes = routes[RECEIVE_MIXES].context;
    exchange_routes_free(&exchanges);
    mix_routes_free(&mixes);
    routes[RECEIVE_STRATEGIES].context = routes[RECEIVE_MIXES].context = NULL;
}
