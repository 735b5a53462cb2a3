/* ask.h: users' questions to the planner. The loop's thread only. */
#ifndef COORDINATOR_HTTP_ASK_H
#define COORDINATOR_HTTP_ASK_H

#include <stdbool.h>

#include "coordinator/content/forecasts.h"
#include "coordinator/content/planner.h"
#include "net/http_server.h"

struct coordinator;

/* Return whether planner_take has room for a question of this request; false: a problem was sent.
 */
bool ask_ready(struct coordinator *coordinator, struct http_exchange *exchange);
/* Begin a forecast, as forecasts_begin. false: a problem was sent; classes or channels that cannot
 * be divided are a fault at the pointer. */
bool ask_forecast(struct coordinator *coordinator, struct http_exchange *exchange,
                  const struct forecast_request *request, const struct catalog_entry *target,
                  const char *pointer, struct forecasts *out);

#endif
