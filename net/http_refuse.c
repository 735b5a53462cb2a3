#include "net/http_refuse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "net/http_watch.h"

#define REFUSAL_BYTES_MAX ((size_t)64 << 10)
/* A client that reads while it sends stops at once. For a client that reads only after sending,
 * wait while it sends at least LINGER_WINDOW_BYTES in each LINGER_WINDOW_MS, and LINGER_MS after
 * its last byte. */
#define LINGER_MS 5000
#define LINGER_WINDOW_MS 10000
#define LINGER_WINDOW_BYTES ((uint64_t)4 << 10)
/* The bytes of an upload discarded per turn, and in total if its length is unknown. */
#define LINGER_TURN_BYTES ((size_t)4 << 20)
#define LINGER_BYTES_MAX (UINT64_C(16) << 30)

/* ---- the reply ---- */

static const char *reason_of(int status)
{
    const char *reason = MHD_get_reason_phrase_for((unsigned)status);
    return reason ? reason : "Refused";
}

int http_refuse_write(const struct http_exchange *exchange, int status, const char *content_type,
                      const void *body, size_t size, struct buf *out)
{
    char date[64] = "";
    struct tm now;
    time_t seconds = time(NULL);
    if (gmtime_r(&seconds, &now)) {
        (void)strftime(date, sizeof(date), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &now);
    }
    buf_init(out, REFUSAL_BYTES_MAX);
    int rc =
        buf_printf(out, NULL, "HTTP/1.1 %d %s\r\n%sConnection: close\r\nContent-Length: %zu\r\n",
                   status, reason_of(status), date, size);
    if (!rc && content_type) {
        rc = buf_printf(out, NULL, "Content-Type: %s\r\n", content_type);
    }
    const char *name = exchange->header_text;
    for (size_t i = 0; !rc && i < exchange->header_count; i++) {
        const char *value = name + strlen(name) + 1;
        rc = value[0] ? buf_printf(out, NULL, "%s: %s\r\n", name, value) : 0;
        name = value + strlen(value) + 1;
    }
    rc = rc ? rc : buf_append(out, "\r\n", 2, NULL);
    if (!rc && strcmp(exchange->method, "HEAD") != 0) {
        rc = buf_append(out, body, size, NULL);
    }
    if (rc) {
        buf_done(out);
    }
    return rc;
}

/* ---- lingering sockets ---- */

static void linger_end(struct http_server *server, struct http_linger *linger)
{
    /* The epoll set would keep a closed descriptor while libmicrohttpd still holds a duplicate. */
    (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, linger->fd, NULL);
    file_close(&linger->fd);
    server->linger_count--;
}

/* Return a free place. If there is none, free the place with the earliest deadline. */
static struct http_linger *linger_take(struct http_server *server)
{
    struct http_linger *first = server->linger;
    for (size_t i = 0; i < HTTP_LINGER_MAX; i++) {
        struct http_linger *linger = &server->linger[i];
        if (linger->fd < 0) {
            return linger;
        }
        first = linger->deadline_ms < first->deadline_ms ? linger : first;
    }
    linger_end(server, first);
    return first;
}

static void linger_add(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;
    /* libmicrohttpd is about to shut down and close its descriptor: a duplicate keeps the
     * connection. */
    int fd = fcntl(exchange->socket_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    struct http_linger *linger = linger_take(server);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
    if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
        close(fd);
        return;
    }
    /* With TLS the encrypted records are discarded. Small records are mostly overhead, so the
     * body's length is not a bound for them. */
    const int64_t length = exchange->session ? -1 : http_content_length(exchange);
    *linger = (struct http_linger){.fd = fd,
                                   .deadline_ms = server->now_ms + LINGER_MS,
                                   .window_ms = server->now_ms + LINGER_WINDOW_MS,
                                   .window_left = LINGER_WINDOW_BYTES,
                                   .bytes_left = length >= 0 ? (uint64_t)length : LINGER_BYTES_MAX};
    server->linger_count++;
}

enum MHD_Result http_refuse(struct http_exchange *exchange)
{
    exchange->phase = PHASE_QUEUED;
    http_watch_stage(exchange, STAGE_REPLY);
    /* Only earlier replies can fill the socket's buffer. A client that left them unread gets no
     * further reply. */
    const struct buf *refusal = &exchange->refusal;
    const bool sent = exchange->session ? http_tls_send(exchange, refusal->data, refusal->size)
                                        : send(exchange->socket_fd, refusal->data, refusal->size,
                                               MSG_NOSIGNAL) == (ssize_t)refusal->size;
    if (sent) {
        linger_add(exchange);
    }
    return MHD_NO;
}

/* Discard received bytes; false when the connection has ended. */
static bool linger_read(struct http_linger *linger, int64_t now_ms)
{
    ssize_t count;
    size_t total = 0;
    do {
        /* On TCP, MSG_TRUNC discards without copying. */
        count = recv(linger->fd, NULL, LINGER_TURN_BYTES, MSG_DONTWAIT | MSG_TRUNC);
        total += count > 0 ? (size_t)count : 0;
    } while ((count > 0 && total < LINGER_TURN_BYTES) || (count < 0 && errno == EINTR));
    if (total > linger->bytes_left) {
        return false; /* more than it announced */
    }
    if (total > 0) {
        linger->deadline_ms = now_ms + LINGER_MS;
        linger->window_left -= total < linger->window_left ? total : linger->window_left;
        linger->bytes_left -= total;
    }
    if (now_ms >= linger->window_ms && linger->bytes_left > 0) {
        if (linger->window_left > 0) {
            return false;
        }
        linger->window_ms = now_ms + LINGER_WINDOW_MS;
        linger->window_left = LINGER_WINDOW_BYTES;
    }
    return now_ms < linger->deadline_ms && (count > 0 || (count < 0 && errno == EAGAIN));
}

void http_linger_run(struct http_server *server)
{
    for (size_t i = 0; i < HTTP_LINGER_MAX && server->linger_count > 0; i++) {
        struct http_linger *linger = &server->linger[i];
        if (linger->fd >= 0 && !linger_read(linger, server->now_ms)) {
            linger_end(server, linger);
        }
    }
}

int64_t http_linger_deadline_ms(const struct http_server *server)
{
    int64_t first_ms = INT64_MAX;
    for (size_t i = 0; i < HTTP_LINGER_MAX && server->linger_count > 0; i++) {
        const struct http_linger *linger = &server->linger[i];
        if (linger->fd >= 0 && linger->deadline_ms < first_ms) {
            first_ms = linger->deadline_ms;
        }
    }
    return first_ms;
}

void http_linger_end_all(struct http_server *server)
{
    for (size_t i = 0; i < HTTP_LINGER_MAX; i++) {
        if (server->linger[i].fd >= 0) {
            linger_end(server, &server->linger[i]);
        }
    }
}
