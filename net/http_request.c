#include "net/http_request.h"

#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/parse.h"
#include "net/http_framing.h"
#include "net/http_refuse.h"
#include "net/http_reply.h"
#include "net/http_watch.h"

/* The memory of larger collected bodies is freed when the exchange ends. */
#define BODY_KEPT_BYTES HTTP_BODY_FREE_BYTES

/* ---- the request as the owner sees it ---- */

const char *http_method(const struct http_exchange *exchange)
{
    return exchange->method;
}

const char *http_allowed(const struct http_exchange *exchange)
{
    return exchange->allow;
}

const char *http_path(const struct http_exchange *exchange)
{
    return exchange->url.path;
}

const char *http_fault(const struct http_exchange *exchange)
{
    return exchange->url.fault;
}

const char *http_param(const struct http_exchange *exchange, const char *name)
{
    const char *text =
        exchange->route ? http_route_param(exchange->route->pattern, &exchange->url, name) : NULL;
    ASSERT(text != NULL);
    return text;
}

const char *http_query(const struct http_exchange *exchange, const char *name)
{
    for (size_t i = 0; i < exchange->url.query_count; i++) {
        if (strcmp(exchange->url.query[i].name, name) == 0) {
            return exchange->url.query[i].value;
        }
    }
    return NULL;
}

void http_each_query(const struct http_exchange *exchange,
                     void (*visit)(void *arg, const char *name, const char *value), void *arg)
{
    for (size_t i = 0; i < exchange->url.query_count; i++) {
        visit(arg, exchange->url.query[i].name, exchange->url.query[i].value);
    }
}

const char *http_header(const struct http_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

const char *http_body(const struct http_exchange *exchange, size_t *size)
{
    *size = exchange->body.size;
    return exchange->body.data ? exchange->body.data : "";
}

int64_t http_content_length(const struct http_exchange *exchange)
{
    const char *text = http_header(exchange, MHD_HTTP_HEADER_CONTENT_LENGTH);
    int64_t length = 0;
    bool stated = text && !http_header(exchange, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    return stated && parse_i64(text, 0, INT64_MAX, &length, NULL) == 0 ? length : -1;
}

bool http_is_tls(const struct http_exchange *exchange)
{
    return exchange->session != NULL;
}

bool http_peer_key(struct http_exchange *exchange, uint8_t key[HASH_SIZE])
{
    return exchange->session && http_tls_peer_key(exchange, key);
}

int http_role(const struct http_exchange *exchange)
{
    return exchange->route ? exchange->route->role : 0;
}

void http_set_mark(struct http_exchange *exchange, uint64_t mark)
{
    exchange->mark = mark;
}

uint64_t http_mark(const struct http_exchange *exchange)
{
    return exchange->mark;
}

void http_client_address(const struct http_exchange *exchange, struct address *out)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    ASSERT(info);
    address_set(out, info->client_addr);
}

const char *http_request_id(const struct http_exchange *exchange)
{
    return exchange->request_id;
}

/* ---- headers ---- */

/* A counter, mixed by a bijection so that ids of two runs do not look alike (the finisher of
 * SplitMix64). */
static void make_request_id(struct http_server *server, char out[17])
{
    uint64_t x = server->request_key + server->request_count++;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    parse_to_hex((const uint8_t *)&x, sizeof(x), out);
}

void *http_request_target(void *cls, const char *target, struct MHD_Connection *connection)
{
    struct http_server *server = cls;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_exchange *exchange = info ? info->socket_context : NULL;
    if (exchange) {
        ASSERT(exchange->server == server && exchange->phase == PHASE_IDLE);
        http_url_parse(&exchange->url, target);
    }
    return exchange;
}

static void *route_context(const struct http_exchange *exchange)
{
    void *own = exchange->route->context;
    return own ? own : exchange->server->config.context;
}

/* Run the handlers that may reply after the headers. Returns whether one replied. */
static bool screen(struct http_exchange *exchange)
{
    const struct http_server_config *config = &exchange->server->config;
    const bool admitted = http_watch_admit(exchange);
    struct http_match match;
    http_route_find(config->routes, config->route_count, &exchange->url, exchange->method, &match);
    exchange->route = match.route;
    if (config->guard) {
        config->guard(config->context, exchange);
        if (http_is_replied(exchange)) {
            return true;
        }
    }
    http_handle_fn fallback = NULL;
    if (exchange->url.fault) {
        fallback = config->fallbacks.bad_request;
    } else if (!admitted) {
        fallback = config->fallbacks.busy;
        exchange->server->refusals.requests++;
    } else if (!match.route && match.allow[0] != '\0') {
        memcpy(exchange->allow, match.allow, sizeof(exchange->allow));
        http_reply_header(exchange, MHD_HTTP_HEADER_ALLOW, match.allow);
        fallback = config->fallbacks.method_not_allowed;
    } else if (!match.route) {
        fallback = config->fallbacks.not_found;
    } else {
        int64_t length = http_content_length(exchange);
        if (!match.route->sink && length > 0 && (uint64_t)length > match.route->body_max) {
            fallback = config->fallbacks.too_large;
        }
    }
    if (fallback) {
        fallback(config->context, exchange);
        ASSERT(http_is_replied(exchange));
        return true;
    }
    const struct http_sink *sink = exchange->route->sink;
    if (!sink) {
        return false;
    }
    exchange->sink_open = sink->open(route_context(exchange), exchange, &exchange->sink_state);
    ASSERT(exchange->sink_open != http_is_replied(exchange));
    return !exchange->sink_open;
}

/* Return whether a reply made before the end of the body must be sent at once. Only a refusal must;
 * any other reply is sent after the body. */
static bool must_refuse(const struct http_exchange *exchange)
{
    return exchange->refusal.size > 0;
}

static void prepare(struct http_exchange *exchange, const char *method)
{
    http_reply_reset(exchange);
    exchange->phase = PHASE_BODY;
    exchange->scans = false;
    exchange->started_seconds = clock_now_seconds();
    exchange->method = method;
    exchange->route = NULL;
    exchange->mark = 0;
    exchange->body_bytes = 0;
    exchange->sink_state = NULL;
    exchange->sink_open = false;
    exchange->endless = false;
    make_request_id(exchange->server, exchange->request_id);
}

static enum MHD_Result begin(struct http_exchange *exchange, const char *method,
                             const char *version)
{
    prepare(exchange, method);
    exchange->has_body = http_content_length(exchange) > 0 ||
                         http_header(exchange, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    const char *fault = http_framing_fault(exchange->connection, version);
    if (fault) {
        /* The end of this request is in doubt, so the connection must end with the reply. */
        exchange->url.fault = fault;
        exchange->has_body = true;
    }
    bool replied = screen(exchange);
    if (replied && must_refuse(exchange)) {
        return http_refuse(exchange);
    }
    if (replied && !exchange->has_body) {
        return http_reply_queue(exchange);
    }
    buf_clear(&exchange->body);
    exchange->body.limit = replied || exchange->route->sink ? 0 : exchange->route->body_max;
    http_watch_stage(exchange, !exchange->has_body  ? STAGE_WAIT
                               : exchange->reserved ? STAGE_GUEST
                                                    : STAGE_BODY);
    return MHD_YES;
}

/* ---- body ---- */

static void abort_sink(struct http_exchange *exchange)
{
    if (exchange->sink_open) {
        exchange->sink_open = false;
        exchange->route->sink->abort(exchange->sink_state);
    }
}

/* Send an early reply at once, or discard the body until the reply can be sent. */
static enum MHD_Result end_early(struct http_exchange *exchange, size_t *size)
{
    abort_sink(exchange);
    if (must_refuse(exchange)) {
        return http_refuse(exchange);
    }
    *size = 0;
    return MHD_YES;
}

/* Charge the body's memory to the common bound; false: the bound is reached. */
static bool charge_body(struct http_exchange *exchange, size_t more)
{
    struct http_server *server = exchange->server;
    const size_t size = exchange->body.size + more;
    const size_t charge = size > HTTP_BODY_FREE_BYTES ? size - HTTP_BODY_FREE_BYTES : 0;
    const size_t bound = server->config.bodies_max_bytes;
    if (bound > 0 && charge > exchange->body_charge &&
        server->bodies_bytes - exchange->body_charge + charge > bound) {
        return false;
    }
    server->bodies_bytes += charge - exchange->body_charge;
    exchange->body_charge = charge;
    return true;
}

static enum MHD_Result feed_sink(struct http_exchange *exchange, const char *data, size_t *size)
{
    while (*size > 0) {
        size_t count = exchange->route->sink->write(exchange->sink_state, data, *size);
        ASSERT(count <= *size);
        data += count;
        *size -= count;
        if (http_is_replied(exchange)) {
            return end_early(exchange, size);
        }
        if (count == 0 && http_wait(exchange)) {
            return MHD_YES;
        }
    }
    return MHD_YES;
}

static enum MHD_Result take_body(struct http_exchange *exchange, const char *data, size_t *size)
{
    const struct http_server_config *config = &exchange->server->config;
    if (http_is_replied(exchange)) {
        return end_early(exchange, size);
    }
    if (exchange->route->sink) {
        return feed_sink(exchange, data, size);
    }
    http_handle_fn fallback = NULL;
    int rc = 0;
    if (*size > exchange->body.limit - exchange->body.size) {
        fallback = config->fallbacks.too_large;
    } else if (!charge_body(exchange, *size)) {
        fallback = config->fallbacks.busy;
        exchange->server->refusals.requests++;
    } else {
        rc = buf_append(&exchange->body, data, *size, NULL);
    }
    if (fallback) {
        fallback(config->context, exchange);
        ASSERT(http_is_replied(exchange));
        return end_early(exchange, size);
    }
    *size = 0;
    return rc ? MHD_NO : MHD_YES;
}

static void end_body(struct http_exchange *exchange)
{
    exchange->phase = PHASE_REPLY;
    http_watch_stage(exchange, STAGE_WAIT);
    if (http_is_replied(exchange)) {
        abort_sink(exchange);
    } else if (exchange->sink_open) {
        exchange->sink_open = false;
        exchange->route->sink->finish(exchange->sink_state);
    } else {
        exchange->route->handle(route_context(exchange), exchange);
    }
}

/* ---- libmicrohttpd's side ---- */

enum MHD_Result http_request_step(void *server, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **cls)
{
    (void)server;
    (void)connection;
    (void)url;
    struct http_exchange *exchange = *cls;
    if (!exchange || exchange->gone) {
        return MHD_NO;
    }
    if (exchange->phase == PHASE_IDLE) {
        return begin(exchange, method, version);
    }
    if (exchange->phase == PHASE_BODY && *data_size > 0) {
        const size_t offered = *data_size;
        enum MHD_Result result = take_body(exchange, data, data_size);
        exchange->body_bytes += offered - *data_size;
        return result;
    }
    if (exchange->phase == PHASE_BODY) {
        end_body(exchange);
    }
    if (exchange->phase == PHASE_REPLY && !http_wait_for_reply(exchange)) {
        return http_reply_queue(exchange);
    }
    return MHD_YES;
}

static void end(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;
    int status = exchange->phase == PHASE_QUEUED ? exchange->status : 0;
    http_server_lock(server);
    void (*on_end)(void *arg) = exchange->reply == REPLY_NONE ? exchange->on_end : NULL;
    void *on_end_arg = exchange->on_end_arg;
    http_server_unlock(server);
    abort_sink(exchange);
    if (on_end) {
        on_end(on_end_arg);
    }
    if (server->config.finished) {
        double seconds = clock_now_seconds() - exchange->started_seconds;
        server->config.finished(server->config.context, exchange, status, seconds);
    }
    if (exchange->body.capacity > BODY_KEPT_BYTES) {
        buf_done(&exchange->body);
    }
    server->bodies_bytes -= exchange->body_charge;
    exchange->body_charge = 0;
    server->replies_bytes -= exchange->reply_charge;
    exchange->reply_charge = 0;
    http_reply_reset(exchange);
    exchange->phase = PHASE_IDLE;
    http_watch_stage(exchange, STAGE_QUIET);
    if (exchange->peer_closed && !exchange->gone) {
        http_watch_ending(exchange);
    }
}

void http_request_completed(void *cls, struct MHD_Connection *connection, void **exchange_cls,
                            enum MHD_RequestTerminationCode code)
{
    (void)cls;
    (void)connection;
    (void)code;
    struct http_exchange *exchange = *exchange_cls;
    if (exchange && exchange->phase != PHASE_IDLE) {
        end(exchange);
    }
}

void http_request_reject(struct http_exchange *exchange, const char *fault)
{
    const struct http_server_config *config = &exchange->server->config;
    prepare(exchange, MHD_HTTP_METHOD_GET);
    http_url_parse(&exchange->url, "");
    exchange->url.fault = fault;
    exchange->has_body = true;
    if (config->guard) {
        config->guard(config->context, exchange);
    }
    if (!http_is_replied(exchange)) {
        config->fallbacks.bad_request(config->context, exchange);
    }
    if (must_refuse(exchange)) {
        (void)http_refuse(exchange);
    }
    end(exchange);
    http_break_off(exchange);
}
