#include <string.h>

#include "coordinator/coordinator.h"
#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/routes.h"
#include "schema/openapi.h"
#include "schema/service.h"

void serve_health(void *context, struct http_exchange *exchange)
{
    (void)context;
    struct service_status status = {.status = "ok"};
    answer_record(exchange, 200, &service_status_record, &status);
}

/* Always ready: the rows are restored before the server answers, and the guard rejects requests
 * while the program stops. */
void serve_ready(void *context, struct http_exchange *exchange)
{
    (void)context;
    struct service_status status = {.status = "ready"};
    answer_record(exchange, 200, &service_status_record, &status);
}

void serve_version(void *context, struct http_exchange *exchange)
{
    (void)context;
    struct service_version version = {.name = "paceline-coordinator",
                                      .version = PACELINE_VERSION,
                                      .protocol = PROTOCOL_VERSION,
                                      .protocol_min = PROTOCOL_VERSION_MIN};
    answer_record(exchange, 200, &service_version_record, &version);
}

/* Clients that know the authority's SHA-256 fetch it before they can verify the server. */
void serve_authority(void *context, struct http_exchange *exchange)
{
    const struct coordinator *coordinator = context;
    if (!coordinator->authority) {
        answer_problem(exchange, PROBLEM_NOT_FOUND,
                       "this coordinator has no authority of its own; 'paceline-coordinator init' "
                       "makes one");
        return;
    }
    http_reply_borrowed(exchange, 200, "application/x-pem-file", coordinator->authority,
                        strlen(coordinator->authority), NULL, NULL);
}

void serve_openapi(void *context, struct http_exchange *exchange)
{
    (void)context;
    size_t size;
    const char *text = openapi_json(&size);
    http_reply_borrowed(exchange, 200, "application/json; charset=utf-8", text, size, NULL, NULL);
}

void serve_events(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    static const char *const allowed[] = {"job", NULL};
    const char *last = http_header(exchange, "Last-Event-ID");
    const char *job = http_query(exchange, "job");
    if (!answer_check_query(exchange, allowed) ||
        (job && !job_exists(coordinator, exchange, job))) {
        return;
    }
    if (last && last[0] && !id_valid(last, "evt_")) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER,
                       "Last-Event-ID: expected the id of an event (evt_...), not '%.40s'; without "
                       "this header the stream starts with the next event",
                       last);
        return;
    }
    if (access_take(coordinator, exchange, SHARE_STREAMS)) {
        event_stream_serve(coordinator->edge->stream, exchange, last, job);
    }
}
