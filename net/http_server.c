#include "net/http_server.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/pages.h"
#include "net/hash.h"
#include "net/http_exchange.h"
#include "net/http_refuse.h"
#include "net/http_request.h"
#include "net/http_watch.h"

#define CONNECTION_BYTES ((size_t)32 << 10) /* default */
#define HEADER_TIMEOUT_MS 10000
#define PROGRESS_TIMEOUT_MS 10000

/* ---- connections ---- */

static struct http_exchange *exchange_take(struct http_server *server)
{
    struct http_exchange *exchange = server->first_free;
    if (exchange) {
        server->first_free = exchange->next_free;
        return exchange;
    }
    if (server->fresh == server->exchange_count) {
        return NULL;
    }
    exchange = &server->exchanges[server->fresh++];
    exchange->server = server;
    return exchange;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = cls;
    struct http_exchange *exchange = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        ASSERT(exchange && exchange->phase == PHASE_IDLE);
        server->place_freed |= server->connection_count == server->exchange_count;
        server->connection_count--;
        if (server->tls) {
            http_tls_end(exchange);
        }
        http_watch_end(exchange);
        buf_done(&exchange->body);
        exchange->connection = NULL;
        exchange->next_free = server->first_free;
        server->first_free = exchange;
        return;
    }
    server->connection_count++;
    exchange = exchange_take(server);
    ASSERT(exchange); /* libmicrohttpd accepts no more connections than exchanges */
    exchange->connection = connection;
    *socket_context = exchange;
    if (server->tls) {
        http_tls_begin(exchange);
    }
    http_watch_begin(exchange);
}

/* libmicrohttpd's own messages concern clients that disconnected or sent garbage. */
__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *format,
                                                         va_list arguments)
{
    (void)cls;
    char line[LOG_QUOTE_MAX / 2];
    (void)vsnprintf(line, sizeof(line), format, arguments);
    line[strcspn(line, "\n")] = '\0';
    log_debug("http_server", "message=%s", log_quote(line).text);
}

/* ---- the server ---- */

static int listen_on(const struct address *address, int *out, struct address *bound,
                     struct err *err)
{
    const struct sockaddr *where = (const struct sockaddr *)&address->storage;
    int fd =
        socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    struct sockaddr_storage name;
    socklen_t name_size = sizeof(name);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
        bind(fd, where, address->length) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)&name, &name_size)) {
        int rc = err_set(err, ERR_NETWORK, "listen on %s: %s%s", address->text, strerror(errno),
                         errno == EADDRINUSE ? "; --listen names another address" : "");
        file_close(&fd);
        return rc;
    }
    address_set(bound, (const struct sockaddr *)&name);
    *out = fd;
    return 0;
}

static int start_daemon(struct http_server *server, int listen_fd, struct err *err)
{
    const size_t asked = server->config.connection_bytes;
    const size_t connection_bytes = asked > 0 ? asked : CONNECTION_BYTES;
    /* libmicrohttpd wants each pointer without its const, but only reads the text. */
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)HTTP_TLS_PRIORITIES},
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)http_tls_choose},
        {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem *plain = &tls[2];
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
            (server->tls ? MHD_USE_TLS : 0),
        0, NULL, NULL, http_request_step, server, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_ARRAY, server->tls ? tls : plain, MHD_OPTION_LISTEN_SOCKET, listen_fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)server->exchange_count,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, connection_bytes,
        /* The library's own checks answer with its own pages: http_framing_fault checks instead. */
        MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_URI_LOG_CALLBACK, http_request_target, server,
        MHD_OPTION_NOTIFY_COMPLETED, http_request_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server, MHD_OPTION_END);
    if (!server->daemon) {
        close(listen_fd);
        return err_set(err, ERR_NETWORK, "listen on %s: the HTTP server could not be started",
                       server->address.text);
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct epoll_event event = {.events = EPOLLIN};
    if (!info || epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, info->epoll_fd, &event)) {
        return err_set(err, ERR_IO, "listen on %s: watch the HTTP server: %s", server->address.text,
                       strerror(errno));
    }
    return 0;
}

static int64_t or_default(int64_t value, int64_t fallback)
{
    return value > 0 ? value : fallback;
}

static int open_places(struct http_server *server, struct err *err)
{
    const struct http_server_config *config = &server->config;
    const size_t total = config->connections_max + HTTP_DOOR_PLACES;
    const int64_t progress_ms = or_default(config->progress_timeout_ms, PROGRESS_TIMEOUT_MS);
    const struct places_limits limits = {
        .total = total,
        .strangers = config->strangers_max ? config->strangers_max : config->connections_max,
        .per_address =
            config->strangers_per_address_max ? config->strangers_per_address_max : total,
        .stage_ms = {[STAGE_QUIET] = config->idle_timeout_ms,
                     [STAGE_HEAD] = or_default(config->header_timeout_ms, HEADER_TIMEOUT_MS),
                     [STAGE_GUEST] = progress_ms,
                     [STAGE_BODY] = progress_ms,
                     [STAGE_REPLY] = progress_ms},
    };
    server->now_ms = clock_now_ms();
    return places_new(&limits, server->exchange_count, &server->places, err);
}

int http_server_open(const struct http_server_config *config, struct http_server **out,
                     struct err *err)
{
    ASSERT(config->connections_max > 0 && config->connections_max <= INT_MAX);
    ASSERT(config->fallbacks.not_found && config->fallbacks.method_not_allowed &&
           config->fallbacks.too_large && config->fallbacks.bad_request && config->fallbacks.busy);
    AUTO(http_server_close) struct http_server *server = calloc(1, sizeof(*server));
    if (!server) {
        return err_set(err, ERR_MEMORY, "no memory for the HTTP server");
    }
    server->config = *config;
    server->epoll_fd = -1;
    server->wake_fd = -1;
    for (size_t i = 0; i < HTTP_LINGER_MAX; i++) {
        server->linger[i].fd = -1;
    }
    ASSERT(pthread_mutex_init(&server->mutex, NULL) == 0);
    server->exchange_count = config->connections_max + HTTP_DOOR_PLACES + HTTP_CLOSING_PLACES;
    server->exchanges = pages_new(server->exchange_count, sizeof(*server->exchanges));
    server->empty = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (!server->exchanges || !server->empty) {
        return err_set(err, ERR_MEMORY, "no memory for the HTTP server");
    }
    int rc = open_places(server, err);
    rc = rc ? rc : random_bytes(&server->request_key, sizeof(server->request_key), err);
    if (rc) {
        return rc;
    }
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    if (server->epoll_fd < 0 || server->wake_fd < 0 ||
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->wake_fd, &event)) {
        return err_set(err, ERR_IO, "create an epoll descriptor: %s", strerror(errno));
    }
    if (config->tls.certificate) {
        rc = http_tls_new(&config->tls, &server->tls, err);
        if (rc) {
            return rc;
        }
    }
    int listen_fd = -1;
    rc = listen_on(&config->listen, &listen_fd, &server->address, err);
    if (!rc) {
        rc = start_daemon(server, listen_fd, err);
    }
    if (rc) {
        return rc;
    }
    *out = server;
    server = NULL;
    return 0;
}

/* libmicrohttpd panics if a connection is suspended when it stops. */
static void resume_all(struct http_server *server)
{
    http_server_lock(server);
    server->closing = true;
    for (size_t i = 0; i < server->fresh; i++) {
        if (server->exchanges[i].suspended) {
            server->exchanges[i].suspended = false;
            MHD_resume_connection(server->exchanges[i].connection);
        }
    }
    http_server_unlock(server);
}

void http_server_close(struct http_server **server)
{
    struct http_server *dying = *server;
    if (!dying) {
        return;
    }
    if (dying->daemon) {
        resume_all(dying);
        MHD_stop_daemon(dying->daemon);
    }
    http_tls_free(&dying->tls);
    http_linger_end_all(dying);
    file_close(&dying->wake_fd);
    file_close(&dying->epoll_fd);
    if (dying->empty) {
        MHD_destroy_response(dying->empty);
    }
    pages_free(dying->exchanges);
    places_free(&dying->places);
    (void)pthread_mutex_destroy(&dying->mutex);
    free(dying);
    *server = NULL;
}

const struct address *http_server_address(const struct http_server *server)
{
    return &server->address;
}

int http_server_use_certificate(struct http_server *server, const struct tls_server *tls,
                                struct err *err)
{
    ASSERT(server->tls);
    return http_tls_replace(server->tls, tls, err);
}

struct http_refusals http_server_refusals(const struct http_server *server)
{
    return server->refusals;
}

int http_server_fd(const struct http_server *server)
{
    return server->epoll_fd;
}

int http_server_timeout_ms(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
    int64_t due_ms = places_deadline_ms(server->places);
    int64_t linger_ms = http_linger_deadline_ms(server);
    due_ms = linger_ms < due_ms ? linger_ms : due_ms;
    int64_t wait_ms = INT64_MAX;
    if (due_ms != INT64_MAX) {
        int64_t now_ms = clock_now_ms();
        wait_ms = due_ms > now_ms ? due_ms - now_ms : 0;
    }
    if (MHD_get_timeout(server->daemon, &timeout_ms) == MHD_YES && timeout_ms < INT_MAX) {
        wait_ms = (int64_t)timeout_ms < wait_ms ? (int64_t)timeout_ms : wait_ms;
    }
    return wait_ms == INT64_MAX ? -1 : wait_ms < INT_MAX ? (int)wait_ms : INT_MAX;
}

void http_server_run(struct http_server *server)
{
    server->now_ms = clock_now_ms();
    http_server_lock(server);
    server->runs++;
    if (server->woken) {
        eventfd_t count;
        ASSERT(eventfd_read(server->wake_fd, &count) == 0);
        server->woken = false;
    }
    http_server_unlock(server);
    http_watch_look(server);
    (void)MHD_run(server->daemon);
    if (server->place_freed) {
        /* At its bound of connections, libmicrohttpd stops watching the listening socket. It checks
         * only at the start of a run whether it may watch again. */
        server->place_freed = false;
        (void)MHD_run(server->daemon);
    }
    http_watch_run(server);
    http_linger_run(server);
}
