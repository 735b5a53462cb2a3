/* ask.h: users' questions to the planner. The loop's thread only. */
#ifndef COORDINATOR_HTTP_ASK_H
#define COORDINATOR_HTTP_ASK_H

#include <stdbool.h>

#include "coordinator/content/planner.h"
#include "net/http_server.h"

struct coordinator;

/* Return whether planner_take has room for a question of this request; false: a problem was sent.
 */
bool ask_ready(struct coordinator *coordinator, struct http_exchange *exchange);

#endif
