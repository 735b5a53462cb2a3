#include "net/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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
#include "net/hash.h"
#include "net/http_exchange.h"

#define CONNECTION_BYTES ((size_t)32 << 10) /* where the owner asks for nothing else */
/* How long a refused upload may go on reading its reply, and how much of the upload is thrown away a turn. */
#define LINGER_MS 2000
#define LINGER_TURN_BYTES ((size_t)4 << 20)

/* ---- lingering sockets ---- */

void http_linger_add(struct http_server *server, int socket_fd)
{
    if (server->linger_count == HTTP_LINGER_MAX) {
        return;
    }
    struct http_linger *linger = server->linger;
    while (linger->fd >= 0) {
        linger++;
    }
    /* libmicrohttpd is about to shut down and close its descriptor: a second one keeps the connection. */
    int fd = fcntl(socket_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
    if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
        close(fd);
        return;
    }
    *linger = (struct http_linger){.fd = fd, .deadline_ms = clock_now_ms() + LINGER_MS};
    server->linger_count++;
}

/* Throw away what came in; false when the connection is over. */
static bool linger_read(int fd)
{
    ssize_t count;
    size_t total = 0;
    do {
        /* On TCP, MSG_TRUNC discards without copying. */
        count = recv(fd, NULL, LINGER_TURN_BYTES, MSG_DONTWAIT | MSG_TRUNC);
        total += count > 0 ? (size_t)count : 0;
    } while ((count > 0 && total < LINGER_TURN_BYTES) || (count < 0 && errno == EINTR));
    return count > 0 || (count < 0 && errno == EAGAIN);
}

static void linger_end(struct http_server *server, struct http_linger *linger)
{
    /* The epoll set would keep a closed descriptor while libmicrohttpd still holds its twin. */
    (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, linger->fd, NULL);
    file_close(&linger->fd);
    server->linger_count--;
}

static void linger_run(struct http_server *server)
{
    if (server->linger_count == 0) {
        return;
    }
    int64_t now_ms = clock_now_ms();
    for (size_t i = 0; i < HTTP_LINGER_MAX; i++) {
        struct http_linger *linger = &server->linger[i];
        if (linger->fd >= 0 && (!linger_read(linger->fd) || now_ms >= linger->deadline_ms)) {
            linger_end(server, linger);
        }
    }
}

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
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        server->place_freed |= server->connection_count == server->config.connections_max;
        server->connection_count--;
        struct http_exchange *exchange = *socket_context;
        if (exchange) {
            ASSERT(exchange->phase == PHASE_IDLE);
            buf_done(&exchange->body);
            exchange->connection = NULL;
            exchange->next_free = server->first_free;
            server->first_free = exchange;
        }
        return;
    }
    server->connection_count++;
    /* Without an exchange (more connections than asked for) http_request_step turns the request away. */
    struct http_exchange *exchange = exchange_take(server);
    if (exchange) {
        exchange->connection = connection;
    }
    *socket_context = exchange;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info) {
        /* Fails only for sockets that are not TCP, which the server does not listen on. */
        (void)setsockopt(info->connect_fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    }
}

/* libmicrohttpd's own remarks are about clients that went away or sent rubbish. */
__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *format, va_list arguments)
{
    (void)cls;
    char line[LOG_QUOTE_MAX / 2];
    (void)vsnprintf(line, sizeof(line), format, arguments);
    line[strcspn(line, "\n")] = '\0';
    log_debug("http_server", "message=%s", log_quote(line).text);
}

/* ---- the server ---- */

static int listen_on(const struct address *address, int *out, struct address *bound, struct err *err)
{
    const struct sockaddr *where = (const struct sockaddr *)&address->storage;
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
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
    const struct http_server_config *config = &server->config;
    unsigned idle_seconds = (unsigned)((config->idle_timeout_ms + 999) / 1000);
    size_t connection_bytes = config->connection_bytes > 0 ? config->connection_bytes : CONNECTION_BYTES;
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, http_request_step, server,
        MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)config->connections_max, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)config->connections_per_address_max, MHD_OPTION_CONNECTION_TIMEOUT, idle_seconds,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, connection_bytes, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_URI_LOG_CALLBACK, http_request_target, server, MHD_OPTION_NOTIFY_COMPLETED, http_request_completed,
        server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
    if (!server->daemon) {
        close(listen_fd);
        return err_set(err, ERR_NETWORK, "listen on %s: the HTTP server could not be started", server->address.text);
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct epoll_event event = {.events = EPOLLIN};
    if (!info || epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, info->epoll_fd, &event)) {
        return err_set(err, ERR_IO, "listen on %s: watch the HTTP server: %s", server->address.text, strerror(errno));
    }
    return 0;
}

int http_server_open(const struct http_server_config *config, struct http_server **out, struct err *err)
{
    ASSERT(config->connections_max > 0 && config->connections_max <= INT_MAX);
    ASSERT(config->fallbacks.not_found && config->fallbacks.method_not_allowed && config->fallbacks.too_large &&
           config->fallbacks.bad_request);
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
    server->exchange_count = config->connections_max;
    server->exchanges = calloc(server->exchange_count, sizeof(*server->exchanges));
    server->empty = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (!server->exchanges || !server->empty) {
        return err_set(err, ERR_MEMORY, "no memory for the HTTP server");
    }
    int rc = random_bytes(&server->request_key, sizeof(server->request_key), err);
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

/* libmicrohttpd panics over suspended connections when it stops. */
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
    for (size_t i = 0; i < HTTP_LINGER_MAX; i++) {
        if (dying->linger[i].fd >= 0) {
            linger_end(dying, &dying->linger[i]);
        }
    }
    file_close(&dying->wake_fd);
    file_close(&dying->epoll_fd);
    if (dying->empty) {
        MHD_destroy_response(dying->empty);
    }
    free(dying->exchanges);
    (void)pthread_mutex_destroy(&dying->mutex);
    free(dying);
    *server = NULL;
}

const struct address *http_server_address(const struct http_server *server)
{
    return &server->address;
}

int http_server_fd(const struct http_server *server)
{
    return server->epoll_fd;
}

int http_server_timeout_ms(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
    int64_t wait_ms = INT64_MAX;
    if (MHD_get_timeout(server->daemon, &timeout_ms) == MHD_YES) {
        wait_ms = timeout_ms < INT_MAX ? (int64_t)timeout_ms : INT_MAX;
    }
    int64_t now_ms = server->linger_count > 0 ? clock_now_ms() : 0;
    for (size_t i = 0; i < HTTP_LINGER_MAX && server->linger_count > 0; i++) {
        if (server->linger[i].fd >= 0) {
            int64_t left_ms = server->linger[i].deadline_ms - now_ms;
            left_ms = left_ms > 0 ? left_ms : 0;
            wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
        }
    }
    return wait_ms == INT64_MAX ? -1 : (int)wait_ms;
}

void http_server_run(struct http_server *server)
{
    http_server_lock(server);
    if (server->woken) {
        eventfd_t count;
        ASSERT(eventfd_read(server->wake_fd, &count) == 0);
        server->woken = false;
    }
    http_server_unlock(server);
    (void)MHD_run(server->daemon);
    if (server->place_freed) {
        /* At its bound libmicrohttpd stops watching the listening socket, and only looks at the start of a run whether
         * it may watch again. */
        server->place_freed = false;
        (void)MHD_run(server->daemon);
    }
    http_request_look_for_ends(server);
    http_hangup_run(server);
    linger_run(server);
}
