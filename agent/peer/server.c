#include "agent/peer/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/peer/answers.h"
#include "agent/peer/receive.h"
#include "agent/runtime/thread.h"
#include "base/assert.h"
#include "base/file.h"
#include "base/log.h"
#include "net/hash.h"
#include "net/http_adopt.h"
#include "net/http_server.h"
#include "net/origin.h"

/* Neighbours ping every quarter of a second while they train. */
#define IDLE_TIMEOUT_MS 15000
#define CONNECTION_BYTES ((size_t)256 << 10) /* most requests carry a tensor */
/* Limits for clients that have shown no ticket yet. One address must leave some connections for
 * others. */
#define STRANGERS (RECEIVES_MAX / 2)
#define STRANGERS_PER_ADDRESS (STRANGERS / 2)
#define METRICS_BYTES_MAX ((size_t)1 << 20)

#define ADOPTED_MAX 16 /* waiting for the thread's next turn */

/* A connection from a relay. */
struct peer_server {
    struct receive_pool *pool;
    struct access *access;
    struct peer_metrics metrics;
    struct http_route route[PEER_ROUTES_MAX];
    size_t route_count;
    const struct peer_routes *more;
    size_t more_count;
    struct http_server *http;
    pthread_t thread;
    bool started;
    int room_fd; /* a slot is free, or a connection was adopted */
    int stop_fd;
    pthread_mutex_t lock; /* guards `adopted` and its count */
    int adopted[ADOPTED_MAX];
    size_t adopted_count;
};

/* ---- routes ---- */

static bool let_in(struct peer_server *server, struct http_exchange *exchange)
{
    int64_t generation = 0;
    return answers_let_in(server->access, exchange, &generation, NULL);
}

static void answer_ping(void *context, struct http_exchange *exchange)
{
    if (let_in(context, exchange)) {
        http_reply(exchange, 204, NULL, NULL, 0);
    }
}

/* Compare hashes, so that all wrong tokens take the same time. */
static bool is_token(const char *token, const char *bearer)
{
    char expected[HASH_TEXT_SIZE];
    char given[HASH_TEXT_SIZE];
    if (token[0] == '\0' || !bearer) {
        return false;
    }
    sha256_text(token, strlen(token), expected);
    sha256_text(bearer, strlen(bearer), given);
    return strcmp(expected, given) == 0;
}

/* Reject requests of web pages in a browser on this machine. They use a foreign host name (DNS
 * rebinding). */
static bool is_local(const struct http_exchange *exchange)
{
    static const struct conf_list none = {0};
    struct address client;
    http_client_address(exchange, &client);
    return address_is_loopback(&client) && origin_is_own_host(http_header(exchange, "Host"), &none);
}

static void answer_metrics(void *context, struct http_exchange *exchange)
{
    struct peer_server *server = context;
    BUF_AUTO struct buf body;
    buf_init(&body, METRICS_BYTES_MAX);
    struct exposition out = {.out = &body};
    if (!is_token(server->metrics.token, answers_bearer(exchange)) && !is_local(exchange)) {
        http_reply_header(exchange, "WWW-Authenticate", "Bearer");
        answers_problem(exchange, 401, "token_missing",
                        "from other machines, metrics need the token of --metrics-token");
        return;
    }
    server->metrics.write(server->metrics.arg, &out);
    if (out.rc) {
        answers_problem(exchange, 500, "internal", out.err.text);
    } else {
        http_reply(exchange, 200, EXPOSITION_CONTENT_TYPE, body.data, body.size);
    }
}

static void answer_not_found(void *context, struct http_exchange *exchange)
{
    (void)context;
    answers_problem(exchange, 404, "not_found", "no such route");
}

static void answer_method(void *context, struct http_exchange *exchange)
{
    (void)context;
    answers_problem(exchange, 405, "method_not_allowed", "the route does not support this method");
}

static void answer_too_large(void *context, struct http_exchange *exchange)
{
    (void)context;
    answers_problem(exchange, 413, "body_too_large", "no body is expected");
}

static void answer_bad_request(void *context, struct http_exchange *exchange)
{
    (void)context;
    answers_problem(exchange, 400, "invalid_parameter", "the request cannot be read");
}

static void answer_busy(void *context, struct http_exchange *exchange)
{
    (void)context;
    answers_problem(exchange, 503, "busy", "too many requests without a ticket are under way");
}

static const struct http_route receive_route = {
    .method = "PUT",
    .pattern = "/peer/v1/{job}/{generation}/{step}/{micro_batch}/{boundary}/{kind}",
    .sink = &receive_sink};

static const struct http_route ping_route = {
    .method = "GET", .pattern = "/peer/v1/{job}/{generation}/ping", .handle = answer_ping};

static const struct http_route metrics_route = {
    .method = "GET", .pattern = "/metrics", .handle = answer_metrics};

/* ---- the thread ---- */

static void drain(int fd)
{
    eventfd_t count;
    (void)eventfd_read(fd, &count); /* it does not block if there is nothing to read */
}

static void take_adopted(struct peer_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    for (size_t i = 0; i < server->adopted_count; i++) {
        http_adopt(server->http, server->adopted[i]);
    }
    server->adopted_count = 0;
    (void)pthread_mutex_unlock(&server->lock);
}

static int sooner(int a, int b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

/* Return the time until the first waiting request has waited long enough. */
static int parked_ms(const struct peer_server *server)
{
    int wait_ms = receive_timeout_ms(server->pool);
    for (size_t i = 0; i < server->more_count; i++) {
        const struct peer_routes *more = &server->more[i];
        wait_ms = sooner(wait_ms, more->timeout_ms ? more->timeout_ms(more->context) : -1);
    }
    return wait_ms;
}

static void retry(struct peer_server *server)
{
    receive_retry(server->pool);
    for (size_t i = 0; i < server->more_count; i++) {
        if (server->more[i].retry) {
            server->more[i].retry(server->more[i].context);
        }
    }
}

static void *serve(void *arg)
{
    struct peer_server *server = arg;
    thread_set_name("peer");
    for (;;) {
        struct pollfd fd[] = {{.fd = http_server_fd(server->http), .events = POLLIN},
                              {.fd = server->room_fd, .events = POLLIN},
                              {.fd = server->stop_fd, .events = POLLIN}};
        const int wait_ms = sooner(http_server_timeout_ms(server->http), parked_ms(server));
        if (poll(fd, sizeof(fd) / sizeof(fd[0]), wait_ms) < 0 && errno != EINTR) {
            log_error("peer_server_failed", "error=%s", log_quote(strerror(errno)).text);
            return NULL;
        }
        if (fd[2].revents) {
            return NULL;
        }
        if (fd[1].revents) {
            drain(server->room_fd);
            take_adopted(server);
            retry(server);
        } else if (parked_ms(server) == 0) {
            retry(server);
        }
        http_server_run(server->http);
    }
}

static void add_routes(struct peer_server *server, const struct http_route *route, size_t count,
                       void *context)
{
    ASSERT(count <= PEER_ROUTES_MAX - server->route_count);
    for (size_t i = 0; i < count; i++) {
        server->route[server->route_count] = route[i];
        server->route[server->route_count++].context = context;
    }
}

static void add_all_routes(struct peer_server *server)
{
    add_routes(server, &receive_route, 1, server->pool);
    add_routes(server, &ping_route, 1, server);
    for (size_t i = 0; i < server->more_count; i++) {
        const struct peer_routes *more = &server->more[i];
        add_routes(server, more->route, more->count, more->context);
    }
    add_routes(server, &metrics_route, server->metrics.write ? 1 : 0, server);
}

static int start(struct peer_server *server, const struct peer_server_config *given,
                 struct err *err)
{
    server->room_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->room_fd < 0 || server->stop_fd < 0) {
        return err_set(err, err_from_errno(errno), "eventfd: %s", strerror(errno));
    }
    int rc = receive_pool_new(server->access, &server->pool, err);
    add_all_routes(server);
    const struct http_server_config config = {
        .listen = given->listen,
        .tls = given->tls,
        .routes = server->route,
        .route_count = server->route_count,
        .fallbacks = {answer_not_found, answer_method, answer_too_large, answer_bad_request,
                      answer_busy},
        .context = server,
        .connections_max = RECEIVES_MAX,
        .strangers_max = STRANGERS,
        .strangers_per_address_max = STRANGERS_PER_ADDRESS,
        .connection_bytes = CONNECTION_BYTES,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
    };
    rc = rc ? rc : http_server_open(&config, &server->http, err);
    rc = rc ? rc : thread_start(&server->thread, serve, server, err);
    server->started = rc == 0;
    return rc;
}

int peer_server_open(const struct peer_server_config *config, struct peer_server **out,
                     struct err *err)
{
    struct peer_server *server = calloc(1, sizeof(*server));
    if (!server || pthread_mutex_init(&server->lock, NULL) != 0) {
        free(server);
        return err_set(err, ERR_MEMORY, "peer server");
    }
    server->access = config->access;
    server->more = config->more;
    server->more_count = config->more_count;
    server->metrics = config->metrics;
    int rc = start(server, config, err);
    if (rc != 0) {
        peer_server_close(&server);
        return rc;
    }
    *out = server;
    return 0;
}

void peer_server_close(struct peer_server **server)
{
    struct peer_server *closing = *server;
    if (!closing) {
        return;
    }
    if (closing->started) {
        (void)eventfd_write(closing->stop_fd, 1);
        (void)pthread_join(closing->thread, NULL);
    }
    http_server_close(&closing->http);
    for (size_t i = 0; i < closing->adopted_count; i++) {
        file_close(&closing->adopted[i]);
    }
    (void)pthread_mutex_destroy(&closing->lock);
    receive_pool_free(&closing->pool);
    file_close(&closing->room_fd);
    file_close(&closing->stop_fd);
    free(closing);
    *server = NULL;
}

const struct address *peer_server_address(const struct peer_server *server)
{
    return http_server_address(server->http);
}

int peer_server_room_fd(const struct peer_server *server)
{
    return server->room_fd;
}

/* A connection that does not fit is closed; its caller calls again. */
void peer_server_adopt(struct peer_server *server, int fd)
{
    (void)pthread_mutex_lock(&server->lock);
    if (server->adopted_count < ADOPTED_MAX) {
        server->adopted[server->adopted_count++] = fd;
    } else {
        file_close(&fd);
    }
    (void)pthread_mutex_unlock(&server->lock);
    (void)eventfd_write(server->room_fd, 1);
}
