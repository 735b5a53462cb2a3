#include "coordinator/http/routes.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "net/origin.h"

#define AGENT_PREFIX "/v1/agent/"
#define IDLE_TIMEOUT_MS 120000
/* Bound for all JSON bodies that are being received. */
#define BODIES_BYTES ((size_t)32 << 20)
/* Bound for all pages and pieces of downloads that are being sent. */
#define REPLIES_BYTES ((size_t)256 << 20)

/* Searched from the start. Agents send most requests, so their routes come first. */
static const struct http_route routes[] = {
    ROUTE(DEVICE, "POST", "/v1/agent/join", serve_join, JSON_BODY_MAX),
    ROUTE(DEVICE, "POST", "/v1/agent/enroll", serve_enroll, JSON_BODY_MAX),
    ROUTE(DEVICE, "POST", "/v1/agent/heartbeat", serve_heartbeat, JSON_BODY_MAX),
    ROUTE(DEVICE, "GET", "/v1/agent/assignment", serve_assignment, 0),
    ROUTE(DEVICE, "GET", "/v1/agent/blobs/{sha256}", serve_blob_get, 0),
    UPLOAD_ROUTE(DEVICE, "PUT", "/v1/agent/blobs/{sha256}", blob_sink),
    UPLOAD_ROUTE(DEVICE, "PUT", "/v1/agent/averages/{sha256}", average_sink),
    ROUTE(DEVICE, "GET", "/v1/agent/datasets/{sha256}/content", serve_agent_dataset, 0),

    ROUTE(OPEN, "GET", "/healthz", serve_health, 0),
    ROUTE(OPEN, "GET", "/readyz", serve_ready, 0),
    ROUTE(OPEN, "GET", "/version", serve_version, 0),
    ROUTE(OPEN, "GET", "/ca.pem", serve_authority, 0),
    ROUTE(OPEN, "GET", "/openapi.json", serve_openapi, 0),
    ROUTE(READ, "GET", "/metrics", serve_prometheus, 0),
    ROUTE(READ, "GET", "/v1/events", serve_events, 0),

    ROUTE(READ, "GET", "/v1/devices", serve_devices, 0),
    ROUTE(READ, "GET", "/v1/devices/{id}", serve_device, 0),
    ROUTE(OPERATE, "PATCH", "/v1/devices/{id}", serve_device_patch, JSON_BODY_MAX),
    ROUTE(OPERATE, "DELETE", "/v1/devices/{id}", serve_device_delete, 0),
    ROUTE(OPERATE, "POST", "/v1/devices/{id}/accept", serve_device_accept, JSON_BODY_MAX),
    ROUTE(OPERATE, "POST", "/v1/devices/{id}/cordon", serve_device_cordon, JSON_BODY_MAX),
    ROUTE(OPERATE, "POST", "/v1/devices/{id}/uncordon", serve_device_uncordon, JSON_BODY_MAX),
    ROUTE(READ, "GET", "/v1/devices/{id}/links", serve_device_links, 0),
    ROUTE(READ, "GET", "/v1/devices/{id}/measurements", serve_measurements, 0),
    ROUTE(OPERATE, "POST", "/v1/devices/{id}/drain", serve_device_drain, JSON_BODY_MAX),
    ROUTE(OPERATE, "POST", "/v1/devices/{id}/undrain", serve_device_undrain, JSON_BODY_MAX),

    ROUTE(READ, "GET", "/v1/links", serve_links, 0),

    ROUTE(READ, "GET", "/v1/models", serve_models, 0),
    ROUTE(SUBMIT, "POST", "/v1/models", serve_model_post, JSON_BODY_MAX),
    ROUTE(READ, "GET", "/v1/models/{name}", serve_model, 0),
    ROUTE(OPERATE, "DELETE", "/v1/models/{name}", serve_model_delete, 0),

    ROUTE(READ, "GET", "/v1/datasets", serve_datasets, 0),
    UPLOAD_ROUTE(SUBMIT, "PUT", "/v1/datasets/{name}", dataset_sink),
    ROUTE(READ, "GET", "/v1/datasets/{name}", serve_dataset, 0),
    ROUTE(OPERATE, "DELETE", "/v1/datasets/{name}", serve_dataset_delete, 0),
    ROUTE(READ, "GET", "/v1/datasets/{name}/class_names", serve_dataset_class_names, 0),
    ROUTE(READ, "GET", "/v1/datasets/{name}/content", serve_dataset_content, 0),

    ROUTE(SUBMIT, "POST", "/v1/jobs", serve_job_post, JSON_BODY_MAX),
    ROUTE(READ, "GET", "/v1/jobs", serve_jobs, 0),
    ROUTE(READ, "GET", "/v1/jobs/{id}", serve_job, 0),
    ROUTE(OPERATE, "PATCH", "/v1/jobs/{id}", serve_job_patch, JSON_BODY_MAX),
    ROUTE(OPERATE, "DELETE", "/v1/jobs/{id}", serve_job_delete, 0),
    ROUTE(READ, "GET", "/v1/jobs/{id}/plans", serve_plans, 0),
    ROUTE(READ, "GET", "/v1/jobs/{id}/plans/{generation}", serve_plan, 0),
    ROUTE(READ, "GET", "/v1/jobs/{id}/checkpoints", serve_checkpoints, 0),
    ROUTE(READ, "GET", "/v1/jobs/{id}/metrics", serve_metrics, 0),
    ROUTE(READ, "GET", "/v1/jobs/{id}/groups", serve_job_groups, 0),
    ROUTE(READ, "GET", "/v1/jobs/{id}/groups/{group}/spec", serve_job_group_spec, 0),
    ROUTE(READ, "GET", "/v1/jobs/{id}/mixes", serve_job_mixes, 0),
    ROUTE(READ, "GET", "/v1/jobs/{id}/kernels", serve_job_kernels, 0),
    ROUTE(READ, "GET", "/v1/jobs/{id}/incidents", serve_job_incidents, 0),
    ROUTE(READ, "GET", "/v1/jobs/{id}/replicas", serve_replicas, 0),
    ROUTE(OPERATE, "POST", "/v1/jobs/{id}/pause", serve_job_pause, JSON_BODY_MAX),
    ROUTE(OPERATE, "POST", "/v1/jobs/{id}/resume", serve_job_resume, JSON_BODY_MAX),
    ROUTE(OPERATE, "POST", "/v1/jobs/{id}/cancel", serve_job_cancel, JSON_BODY_MAX),
    ROUTE(SUBMIT, "POST", "/v1/jobs/{id}/export", serve_job_export, JSON_BODY_MAX),
    ROUTE(SUBMIT, "POST", "/v1/jobs/{id}/clone", serve_job_clone, JSON_BODY_MAX),
    ROUTE(OPERATE, "POST", "/v1/jobs/{id}/replan", serve_job_replan, JSON_BODY_MAX),
    ROUTE(READ, "POST", "/v1/plans", serve_plan_question, JSON_BODY_MAX),
    ROUTE(READ, "POST", "/v1/predictions", serve_prediction, JSON_BODY_MAX),
    ROUTE(READ, "GET", "/v1/incidents", serve_incidents, 0),
    ROUTE(READ, "GET", "/v1/incidents/{id}", serve_incident, 0),
    ROUTE(OPERATE, "DELETE", "/v1/incidents/{id}", serve_incident_delete, 0),
    ROUTE(READ, "GET", "/v1/checkpoints", serve_all_checkpoints, 0),
    UPLOAD_ROUTE(SUBMIT, "POST", "/v1/checkpoints", checkpoint_sink),
    ROUTE(READ, "GET", "/v1/checkpoints/{id}", serve_checkpoint, 0),
    ROUTE(OPERATE, "DELETE", "/v1/checkpoints/{id}", serve_checkpoint_delete, 0),
    ROUTE(READ, "GET", "/v1/checkpoints/{id}/content", serve_checkpoint_content, 0),

    ROUTE(ADMIN, "GET", "/v1/tokens", serve_tokens, 0),
    ROUTE(ADMIN, "POST", "/v1/tokens", serve_token_post, JSON_BODY_MAX),
    ROUTE(READ, "GET", "/v1/tokens/self", serve_own_token, 0),
    ROUTE(ADMIN, "GET", "/v1/tokens/{id}", serve_token, 0),
    ROUTE(ADMIN, "POST", "/v1/tokens/{id}/revoke", serve_token_revoke, JSON_BODY_MAX),
    ROUTE(ADMIN, "GET", "/v1/audit", serve_audit, 0),
};

static void fallback_not_found(void *context, struct http_exchange *exchange)
{
    (void)context;
    answer_problem(exchange, PROBLEM_NOT_FOUND,
                   "no route '%.200s'; GET /openapi.json lists the routes", http_path(exchange));
}

static void fallback_method(void *context, struct http_exchange *exchange)
{
    (void)context;
    answer_problem(exchange, PROBLEM_METHOD_NOT_ALLOWED,
                   "route '%.200s' does not support %.16s; it supports %s", http_path(exchange),
                   http_method(exchange), http_allowed(exchange));
}

static void fallback_too_large(void *context, struct http_exchange *exchange)
{
    (void)context;
    answer_problem(exchange, PROBLEM_BODY_TOO_LARGE,
                   "the body exceeds the limit of this route (JSON: %u bytes)", JSON_BODY_MAX);
}

static void fallback_busy(void *context, struct http_exchange *exchange)
{
    (void)context;
    answer_problem(exchange, PROBLEM_BUSY,
                   "too many open requests, bodies or large answers; try again in a moment");
}

static void fallback_bad_request(void *context, struct http_exchange *exchange)
{
    (void)context;
    const char *fault = http_fault(exchange);
    answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "%s",
                   fault ? fault : "the request line is malformed");
}

/* Reject a request that a foreign web page may have made. Returns whether it did. */
static bool is_foreign(const struct coordinator *coordinator, struct http_exchange *exchange)
{
    const struct coordinator_config *config = coordinator->config;
    const char *host = http_header(exchange, "Host");
    const char *origin = http_header(exchange, "Origin");
    if (address_is_loopback(&config->address) && !origin_is_own_host(host, &config->allow_host)) {
        answer_problem(exchange, PROBLEM_FORBIDDEN_ORIGIN,
                       "Host '%.100s' is not a loopback name; for a reverse proxy, start the "
                       "coordinator with --allow-host NAME",
                       host ? host : "");
        return true;
    }
    if (origin && !origin_is_own(origin, host)) {
        answer_problem(exchange, PROBLEM_FORBIDDEN_ORIGIN,
                       "requests from the web page '%.100s' are rejected", origin);
        return true;
    }
    return false;
}

/* The health check is answered regardless of its caller's rights and limits. */
static bool is_health(const struct http_exchange *exchange)
{
    return strcmp(http_path(exchange), "/healthz") == 0;
}

/* Runs first for every request, after its headers. */
static void guard(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    coordinator->edge->requests_open++;
    if (http_fault(exchange)) {
        return; /* the answer to a malformed request does not depend on its origin */
    }
    if (is_foreign(coordinator, exchange)) {
        return;
    }
    if (!is_health(exchange) && !access_admit(coordinator, exchange)) {
        return;
    }
    if (coordinator->stopping && !is_health(exchange)) {
        answer_problem(exchange, PROBLEM_STOPPING, "the coordinator is shutting down");
        return;
    }
    /* Answers may contain only stored state: other requests of this pass may not be committed
     * yet. */
    bool reads =
        strcmp(http_method(exchange), "GET") == 0 || strcmp(http_method(exchange), "HEAD") == 0;
    /* Users may see changes that wait for the disk. A device that acted on them could contradict
     * the next run of the coordinator. */
    if (turn_held(coordinator->turn) &&
        (!reads || strncmp(http_path(exchange), AGENT_PREFIX, sizeof(AGENT_PREFIX) - 1) == 0)) {
        answer_held(exchange);
        return;
    }
    if (reads) {
        (void)answer_settled(exchange, coordinator->turn);
    }
}

/* An agent's first requests and the health check must be served even when strangers use up their
 * whole share. */
static bool is_reserved(void *context, const struct http_exchange *exchange)
{
    (void)context;
    static const char agents[] = "/v1/agent/";
    const char *path = http_path(exchange);
    return strncmp(path, agents, sizeof(agents) - 1) == 0 || is_health(exchange);
}

static void finished(void *context, const struct http_exchange *exchange, int status,
                     double seconds)
{
    struct coordinator *coordinator = context;
    coordinator->edge->requests_open--;
    access_end(coordinator, exchange);
    coordinator->edge->requests++;
    coordinator->edge->errors += status >= 500;
    log_debug("request", "id=%s method=%s path=%s status=%d seconds=%.6f",
              http_request_id(exchange), http_method(exchange), log_quote(http_path(exchange)).text,
              status, seconds);
}

void routes_look(struct coordinator *coordinator)
{
    const struct http_refusals now = http_server_refusals(coordinator->server);
    const bool refusing = now.requests + now.connections > coordinator->edge->refusals;
    if (refusing && !coordinator->edge->refusing) {
        log_warn("connections_full", "refused_requests=%" PRIu64 " closed_connections=%" PRIu64,
                 now.requests, now.connections);
    }
    coordinator->edge->refusing = refusing;
    coordinator->edge->refusals = now.requests + now.connections;
}

/* No caller could use a route without a role, or with a role above the last one. */
static void check_roles(void)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        ASSERT(routes[i].role > ROLE_NONE && routes[i].role <= ROLE_ADMIN);
    }
}

int routes_open(struct coordinator *coordinator, struct http_server **out, struct err *err)
{
    struct http_server_config config = {
        .listen = coordinator->config->address,
        .tls = coordinator->tls,
        .routes = routes,
        .route_count = sizeof(routes) / sizeof(routes[0]),
        .fallbacks = {fallback_not_found, fallback_method, fallback_too_large, fallback_bad_request,
                      fallback_busy},
        .guard = guard,
        .finished = finished,
        .context = coordinator,
        .connections_max = coordinator->connections_max,
        .strangers_max = coordinator->connections_max - coordinator->connections_max / 4,
        .strangers_per_address_max = (size_t)coordinator->config->connections_per_address_max,
        .is_reserved = is_reserved,
        .bodies_max_bytes = BODIES_BYTES,
        .replies_max_bytes = REPLIES_BYTES,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
    };
    check_roles();
    return http_server_open(&config, out, err);
}
