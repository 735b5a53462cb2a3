#include "tests/unit/net/serve.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "tests/support/test.h"

#define PATIENCE_SECONDS 20

void reply_text(struct http_exchange *exchange, int status, const char *text)
{
    http_reply(exchange, status, "text/plain", text, strlen(text));
}

static void not_found(void *context, struct http_exchange *exchange)
{
    (void)context;
    reply_text(exchange, 404, "not_found");
}

static void method_not_allowed(void *context, struct http_exchange *exchange)
{
    (void)context;
    reply_text(exchange, 405, "method_not_allowed");
}

static void too_large(void *context, struct http_exchange *exchange)
{
    (void)context;
    reply_text(exchange, 413, "too_large");
}

static void bad_request(void *context, struct http_exchange *exchange)
{
    (void)context;
    ASSERT(http_fault(exchange) != NULL);
    reply_text(exchange, 400, http_fault(exchange));
}

static void busy(void *context, struct http_exchange *exchange)
{
    (void)context;
    reply_text(exchange, 503, "busy");
}

struct http_server_config serve_config(const struct http_route *routes, size_t route_count,
                                       void *context)
{
    struct http_server_config config = {
        .routes = routes,
        .route_count = route_count,
        .fallbacks = {not_found, method_not_allowed, too_large, bad_request, busy},
        .context = context,
        .connections_max = 16,
        .idle_timeout_ms = 60000,
    };
    struct err err = {0};
    assert_ok(address_parse("127.0.0.1:0", &config.listen, &err), &err);
    return config;
}

static void *run(void *arg)
{
    struct serve *serve = arg;
    struct pollfd fds[2] = {{.fd = http_server_fd(serve->server), .events = POLLIN},
                            {.fd = serve->stop_fd, .events = POLLIN}};
    while (!(fds[1].revents & POLLIN)) {
        ASSERT(poll(fds, 2, http_server_timeout_ms(serve->server)) >= 0 || errno == EINTR);
        http_server_run(serve->server);
    }
    return NULL;
}

void serve_start(struct serve *serve, const struct http_server_config *config)
{
    struct err err = {0};
    assert_ok(http_server_open(config, &serve->server, &err), &err);
    serve->stop_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(serve->stop_fd >= 0);
    (void)snprintf(serve->url, sizeof(serve->url), "%s://%s",
                   config->tls.certificate ? "https" : "http",
                   http_server_address(serve->server)->text);
    assert_int_equal(pthread_create(&serve->thread, NULL, run, serve), 0);
}

void serve_stop(struct serve *serve)
{
    assert_int_equal(eventfd_write(serve->stop_fd, 1), 0);
    assert_int_equal(pthread_join(serve->thread, NULL), 0);
    http_server_close(&serve->server);
    assert_null(serve->server);
    close(serve->stop_fd);
}

struct serve_url serve_url(const struct serve *serve, const char *path)
{
    struct serve_url url;
    int size = snprintf(url.text, sizeof(url.text), "%s%s", serve->url, path);
    assert_true(size > 0 && (size_t)size < sizeof(url.text));
    return url;
}

void gate_init(struct gate *gate)
{
    *gate = (struct gate){0};
    ASSERT(pthread_mutex_init(&gate->mutex, NULL) == 0);
    ASSERT(pthread_cond_init(&gate->changed, NULL) == 0);
}

void gate_done(struct gate *gate)
{
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->mutex);
}

void gate_pass(struct gate *gate, void *item)
{
    pthread_mutex_lock(&gate->mutex);
    gate->count++;
    gate->item = item;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

void *gate_wait(struct gate *gate, int count)
{
    struct timespec deadline;
    ASSERT(clock_gettime(CLOCK_REALTIME, &deadline) == 0);
    deadline.tv_sec += PATIENCE_SECONDS;
    pthread_mutex_lock(&gate->mutex);
    int rc = 0;
    while (gate->count < count && rc == 0) {
        rc = pthread_cond_timedwait(&gate->changed, &gate->mutex, &deadline);
    }
    int reached = gate->count;
    void *item = gate->item;
    pthread_mutex_unlock(&gate->mutex);
    assert_true(reached >= count);
    return item;
}

int gate_count(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    int count = gate->count;
    pthread_mutex_unlock(&gate->mutex);
    return count;
}

int raw_connect(const struct serve *serve)
{
    const struct address *address = http_server_address(serve->server);
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address->storage, address->length), 0);
    return fd;
}

void raw_send(int fd, const char *text)
{
    size_t size = strlen(text);
    assert_int_equal(send(fd, text, size, MSG_NOSIGNAL), size);
}

static void read_on(int fd, const char *part, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    while (!part || !strstr(out, part)) {
        assert_true(used + 1 < size);
        ssize_t count = recv(fd, out + used, size - used - 1, 0);
        /* A reset ends a connection as well as a close does. */
        if (count == 0 || (count < 0 && errno == ECONNRESET)) {
            break;
        }
        assert_true(count > 0);
        used += (size_t)count;
        out[used] = '\0';
    }
    if (part) {
        assert_holds(out, part);
    }
}

void raw_read_all(int fd, char *out, size_t size)
{
    read_on(fd, NULL, out, size);
}

void raw_read_until(int fd, const char *part, char *out, size_t size)
{
    read_on(fd, part, out, size);
}

void raw_ask(const struct serve *serve, const char *request, char *out, size_t size)
{
    int fd = raw_connect(serve);
    raw_send(fd, request);
    raw_read_all(fd, out, size);
    close(fd);
}
