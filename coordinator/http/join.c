#include <string.h>

#include "coordinator/http/access.h"
#include "coordinator/http/agent.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/audit.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/routes.h"
#include "schema/audit.h"

/* Attribute the change to the token, although an agent makes the call. */
static void take_token(const struct coordinator *coordinator, const struct http_exchange *exchange,
                       const struct token *token, bool spends, struct event_join *join,
                       struct turn_extra *extra, struct audit_entry *origin)
{
    audit_origin(coordinator, exchange, origin);
    extra->origin = origin;
    if (!token) {
        return;
    }
    memcpy(origin->token, token->id, sizeof(origin->token));
    memcpy(origin->token_name, token->name, sizeof(origin->token_name));
    memcpy(join->token, token->id, sizeof(join->token));
    memcpy(join->device.text, token->device, sizeof(join->device.text));
    join->pending = token->pending;
    if (spends) {
        memcpy(extra->spent_token, token->id, sizeof(extra->spent_token));
    }
}

/* A machine that lost the answer repeats the call. Its key is known then, so the call does not
 * spend the token again. */
void serve_join(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    struct join_request request = {.protocol = 0};
    struct event event = {.type = EVENT_JOIN, .join = {.request = &request}};
    struct turn_extra extra = {0};
    struct audit_entry origin;
    const struct token *token = NULL;
    if (!answer_check_query(exchange, allowed) ||
        !agent_read_body(exchange, &join_request_record, &request) ||
        !agent_has_key(exchange, request.public_key, request.name)) {
        return;
    }
    const struct device *known = agent_of_key(coordinator, request.public_key);
    const bool joined = known && known->join_token[0];
    if (!access_admit_join(coordinator, exchange, request.token, joined, &token) ||
        (!joined && !edge_takes_rows(coordinator, exchange))) {
        return;
    }
    take_token(coordinator, exchange, token, !joined, &event.join, &extra, &origin);
    turn_event(coordinator->turn, &event, exchange, &extra);
}
