#include "net/http_reply.h"

#include <string.h>
#include <sys/eventfd.h>

#include "base/assert.h"
#include "net/http_refuse.h"
#include "net/http_watch.h"

/* The bytes that libmicrohttpd reads from a source at once. */
#define BLOCK_BYTES ((uint64_t)256 << 10)
#define BLOCK_UNKNOWN_BYTES ((uint64_t)16 << 10)

/* ---- waiting ---- */

/* Resume the connection, or note the wake-up for later. The caller holds the lock. */
static void wake(struct http_exchange *exchange)
{
    if (exchange->server->closing) {
        return;
    }
    if (exchange->suspended) {
        exchange->suspended = false;
        exchange->woken_in = exchange->server->runs;
        MHD_resume_connection(exchange->connection);
        if (!exchange->server->woken) {
            exchange->server->woken = true;
            ASSERT(eventfd_write(exchange->server->wake_fd, 1) == 0);
        }
    } else {
        exchange->wake_pending = true;
    }
}

static void wake_locked(struct http_exchange *exchange)
{
    http_server_lock(exchange->server);
    wake(exchange);
    http_server_unlock(exchange->server);
}

/* Suspend the connection unless the awaited data is `there`; consume an earlier wake-up. The
 * caller holds the lock. */
static bool suspend_unless(struct http_exchange *exchange, bool there)
{
    exchange->wake_pending = false;
    if (!there) {
        exchange->suspended = exchange->rested = true;
        MHD_suspend_connection(exchange->connection);
    }
    return !there;
}

bool http_wait(struct http_exchange *exchange)
{
    http_server_lock(exchange->server);
    bool waits = suspend_unless(exchange, exchange->wake_pending);
    http_server_unlock(exchange->server);
    return waits;
}

bool http_wait_for_reply(struct http_exchange *exchange)
{
    http_server_lock(exchange->server);
    bool waits = suspend_unless(exchange, exchange->reply != REPLY_NONE);
    http_server_unlock(exchange->server);
    return waits;
}

void http_on_end(struct http_exchange *exchange, void (*fn)(void *arg), void *arg)
{
    http_server_lock(exchange->server);
    exchange->on_end = fn;
    exchange->on_end_arg = arg;
    http_server_unlock(exchange->server);
}

void http_exchange_continue(struct http_exchange *exchange)
{
    wake_locked(exchange);
}

void http_exchange_ready(struct http_exchange *exchange)
{
    wake_locked(exchange);
}

/* ---- building a reply ---- */

bool http_is_replied(struct http_exchange *exchange)
{
    http_server_lock(exchange->server);
    bool replied = exchange->reply != REPLY_NONE;
    http_server_unlock(exchange->server);
    return replied;
}

static void copy_header_text(struct http_exchange *exchange, const char *text)
{
    size_t size = strlen(text) + 1;
    ASSERT(size <= sizeof(exchange->header_text) - exchange->header_bytes);
    char *to = exchange->header_text + exchange->header_bytes;
    for (size_t i = 0; i < size; i++) {
        /* A value with a line break could forge headers. */
        bool control = ((unsigned char)text[i] < 0x20 && text[i] != '\0') || text[i] == 0x7f;
        to[i] = text[i];
        if (control) {
            to[i] = '?';
        }
    }
    exchange->header_bytes += size;
}

void http_reply_header(struct http_exchange *exchange, const char *name, const char *value)
{
    ASSERT(exchange->header_count < HTTP_REPLY_HEADERS_MAX);
    copy_header_text(exchange, name);
    copy_header_text(exchange, value);
    exchange->header_count++;
}

/* Add the headers to a new response. If libmicrohttpd does not take a header (no memory), the reply
 * fails: an answer without the header could be misread. */
static bool add_headers(struct http_exchange *exchange, struct MHD_Response *response,
                        const char *content_type)
{
    bool added = true;
    const char *name = exchange->header_text;
    for (size_t i = 0; i < exchange->header_count; i++) {
        const char *value = name + strlen(name) + 1;
        /* libmicrohttpd rejects empty values. */
        added = added &&
                (value[0] == '\0' || MHD_add_response_header(response, name, value) == MHD_YES);
        name = value + strlen(value) + 1;
    }
    if (content_type) {
        added = added && MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                                 content_type) == MHD_YES;
    }
    return added;
}

/* Set the reply of the exchange and wake the exchange. Takes response, which holds `bytes` of
 * memory; NULL: the response could not be created. Do not touch the exchange afterwards: the
 * server's thread may already have ended it. */
static void set_reply(struct http_exchange *exchange, int status, struct MHD_Response *response,
                      const char *content_type, size_t bytes)
{
    if (response && response != exchange->server->empty &&
        !add_headers(exchange, response, content_type)) {
        MHD_destroy_response(response);
        response = NULL;
    }
    http_server_lock(exchange->server);
    ASSERT(exchange->reply == REPLY_NONE);
    exchange->reply = response ? REPLY_READY : REPLY_FAILED;
    exchange->response = response;
    exchange->status = status;
    exchange->reply_bytes = bytes;
    wake(exchange);
    http_server_unlock(exchange->server);
}

/* libmicrohttpd wants a pointer to bytes that may be written, but only reads them. */
static void *body_data(const void *body, size_t size)
{
    union {
        const void *in;
        void *out;
    } data = {.in = size > 0 ? body : ""};
    return data.out;
}

void http_reply(struct http_exchange *exchange, int status, const char *content_type,
                const void *body, size_t size)
{
    struct MHD_Response *response;
    if (exchange->has_body && status >= 400 &&
        http_refuse_write(exchange, status, content_type, body, size, &exchange->refusal)) {
        set_reply(exchange, status, NULL, NULL, 0);
        return;
    }
    if (size == 0 && !content_type && exchange->header_count == 0) {
        response = exchange->server->empty;
    } else {
        response =
            MHD_create_response_from_buffer(size, body_data(body, size), MHD_RESPMEM_MUST_COPY);
    }
    set_reply(exchange, status, response, content_type, size);
}

void http_reply_borrowed(struct http_exchange *exchange, int status, const char *content_type,
                         const void *body, size_t size, void (*release)(void *arg), void *arg)
{
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        size, body_data(body, size), release, arg);
    if (!response && release) {
        release(arg);
    }
    set_reply(exchange, status, response, content_type, 0);
}

static ssize_t read_source(void *cls, uint64_t position, char *out, size_t size)
{
    struct http_exchange *exchange = cls;
    ssize_t count;
    if (exchange->gone) {
        return (ssize_t)MHD_CONTENT_READER_END_WITH_ERROR;
    }
    do {
        count = exchange->source.read(exchange->source.arg, position, out, size);
    } while (count == 0 && !http_wait(exchange));
    if (count == -1) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    return count < 0 ? (ssize_t)MHD_CONTENT_READER_END_WITH_ERROR : count;
}

static void end_source(void *cls)
{
    struct http_exchange *exchange = cls;
    exchange->source.done(exchange->source.arg);
}

void http_reply_stream(struct http_exchange *exchange, int status, const char *content_type,
                       uint64_t size, const struct http_source *source)
{
    bool unknown = size == HTTP_SIZE_UNKNOWN;
    uint64_t block = unknown ? BLOCK_UNKNOWN_BYTES : size < BLOCK_BYTES ? size + 1 : BLOCK_BYTES;
    exchange->source = *source;
    exchange->endless = unknown;
    struct MHD_Response *response = MHD_create_response_from_callback(
        unknown ? MHD_SIZE_UNKNOWN : size, (size_t)block, read_source, exchange, end_source);
    if (!response) {
        source->done(source->arg);
    }
    set_reply(exchange, status, response, content_type, (size_t)block + source->held_bytes);
}

/* ---- passing the reply to libmicrohttpd ---- */

static struct MHD_Response *take_reply(struct http_exchange *exchange)
{
    http_server_lock(exchange->server);
    ASSERT(exchange->reply != REPLY_NONE);
    struct MHD_Response *response = exchange->response;
    exchange->response = NULL;
    exchange->wake_pending = false;
    http_server_unlock(exchange->server);
    return response;
}

/* Charge a large reply to the common bound; false: the bound is reached. A reply is always sent
 * if it is the only one, or if its request may have changed state. */
static bool charge_reply(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;
    const size_t bound = server->config.replies_max_bytes, bytes = exchange->reply_bytes;
    const bool reads = strcmp(exchange->method, MHD_HTTP_METHOD_GET) == 0 ||
                       strcmp(exchange->method, MHD_HTTP_METHOD_HEAD) == 0;
    if (bound == 0 || bytes <= HTTP_REPLY_FREE_BYTES || !reads || exchange->has_body ||
        http_watch_knows(exchange)) {
        return true;
    }
    if (server->replies_bytes > 0 && server->replies_bytes + bytes > bound) {
        return false;
    }
    server->replies_bytes += bytes;
    exchange->reply_charge = bytes;
    return true;
}

enum MHD_Result http_reply_queue(struct http_exchange *exchange)
{
    const struct http_server_config *config = &exchange->server->config;
    struct MHD_Response *response = take_reply(exchange);
    if (response && !charge_reply(exchange)) {
        MHD_destroy_response(response);
        http_reply_reset(exchange);
        exchange->server->refusals.requests++;
        config->fallbacks.busy(config->context, exchange);
        response = take_reply(exchange);
    }
    if (!response) {
        return MHD_NO;
    }
    exchange->on_hangup = NULL;
    enum MHD_Result result =
        MHD_queue_response(exchange->connection, (unsigned)exchange->status, response);
    if (result == MHD_YES) {
        exchange->phase = PHASE_QUEUED;
        http_watch_stage(exchange, STAGE_REPLY);
        if (exchange->endless && exchange->peer_closed) {
            http_watch_ending(exchange);
        }
    }
    if (response != exchange->server->empty) {
        MHD_destroy_response(response);
    }
    return result;
}

void http_reply_reset(struct http_exchange *exchange)
{
    http_server_lock(exchange->server);
    struct MHD_Response *response = exchange->response;
    exchange->response = NULL;
    exchange->reply = REPLY_NONE;
    exchange->status = 0;
    exchange->wake_pending = false;
    exchange->on_end = NULL;
    http_server_unlock(exchange->server);
    exchange->header_count = 0;
    exchange->header_bytes = 0;
    exchange->on_hangup = NULL;
    buf_done(&exchange->refusal);
    if (response && response != exchange->server->empty) {
        MHD_destroy_response(response);
    }
}
