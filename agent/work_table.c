#include "agent/work_table.h"

#include "agent/parameter_server/parameter_server_work.h"
#include "agent/parameter_server/routes.h"
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

int work_table_open(struct access *access, struct peer_routes *out, struct err *err)
{
    struct exchange_routes *routes = NULL;
    const int rc = exchange_routes_new(access, &routes, err);
    *out = (struct peer_routes){.route = exchange_route_table,
                                .count = EXCHANGE_ROUTES,
                                .context = routes,
                                .retry = exchange_routes_retry,
                                .timeout_ms = exchange_routes_timeout_ms};
    return rc;
}

void work_table_close(struct peer_routes *routes)
{
    struct exchange_routes *exchanges = routes->context;
    exchange_routes_free(&exchanges);
    routes->context = NULL;
}
