/* How fast the bodies of a route must come, and how slowly a server may send its own. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/test.h"
#include "tests/unit/net/serve.h"

static bool open_upload(void *context, struct http_exchange *exchange, void **upload)
{
    (void)context;
    *upload = exchange;
    return true;
}

static size_t take_upload(void *upload, const void *data, size_t size)
{
    (void)upload;
    (void)data;
    return size;
}

static void finish_upload(void *upload)
{
    http_reply(upload, 204, NULL, NULL, 0);
}

static void abort_upload(void *upload)
{
    (void)upload;
}

static const struct http_sink upload = {open_upload, take_upload, finish_upload, abort_upload};

/* A byte in SPELL_MS, for a second; asked as often as another thread can wake the connection. */
static struct trickle {
    struct http_exchange *exchange;
    int64_t began_ms;
    atomic_bool over;
    pthread_t waker;
} trickle;
enum { SPELL_MS = 20, SPELLS = 50 };

static ssize_t read_trickle(void *arg, uint64_t offset, void *out, size_t size)
{
    (void)arg;
    assert_true(size > 0);
    if (offset == SPELLS) {
        return -1;
    }
    if (clock_now_ms() < trickle.began_ms + (int64_t)offset * SPELL_MS) {
        return 0;
    }
    *(char *)out = '.';
    return 1;
}

static void end_trickle(void *arg)
{
    (void)arg;
    atomic_store(&trickle.over, true);
}

static void *wake_trickle(void *arg)
{
    (void)arg;
    while (!atomic_load(&trickle.over)) {
        http_exchange_ready(trickle.exchange);
    }
    return NULL;
}

static void open_trickle(void *context, struct http_exchange *exchange)
{
    (void)context;
    trickle.exchange = exchange;
    trickle.began_ms = clock_now_ms();
    const struct http_source source = {.read = read_trickle, .done = end_trickle};
    http_reply_stream(exchange, 200, "text/plain", HTTP_SIZE_UNKNOWN, &source);
    assert_int_equal(pthread_create(&trickle.waker, NULL, wake_trickle, NULL), 0);
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/trickle", .handle = open_trickle},
    {.method = "PUT", .pattern = "/steady", .sink = &upload},
    {.method = "PUT", .pattern = "/patient", .sink = &upload, .body_bytes_min = 1},
};

/* Single bytes of a body keep a connection open only where that is the least. */
static void a_route_says_how_fast_its_bodies_come(void **state)
{
    (void)state;
    struct serve serve = {0};
    struct http_server_config config =
        serve_config(routes, sizeof(routes) / sizeof(routes[0]), NULL);
    config.progress_timeout_ms = 200;
    serve_start(&serve, &config);
    static const char *const path[] = {"steady", "patient"};
    enum { BYTES = 50, BETWEEN_MS = 20 }; /* 1 s, five times as long as the server waits */
    for (size_t i = 0; i < 2; i++) {
        char request[200], answer[1024];
        const int fd = raw_connect(&serve);
        (void)snprintf(request, sizeof(request),
                       "PUT /%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
                       "Connection: close\r\n\r\n",
                       path[i], BYTES);
        raw_send(fd, request);
        struct pollfd closed = {.fd = fd, .events = POLLIN};
        for (int k = 0; k < BYTES && poll(&closed, 1, BETWEEN_MS) == 0; k++) {
            (void)send(fd, "x", 1, MSG_NOSIGNAL);
        }
        raw_read_all(fd, answer, sizeof(answer));
        assert_true((strstr(answer, "HTTP/1.1 204 ") != NULL) == (i == 1));
        close(fd);
    }
    serve_stop(&serve);
}

/* Whatever moment the server checks at: it has little to send, and the client takes it. */
static void a_stream_that_is_quiet_is_not_broken_off(void **state)
{
    (void)state;
    struct serve serve = {0};
    char answer[4096];
    struct http_server_config config =
        serve_config(routes, sizeof(routes) / sizeof(routes[0]), NULL);
    config.progress_timeout_ms = 100;
    serve_start(&serve, &config);
    const int fd = raw_connect(&serve);
    raw_send(fd, "GET /trickle HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    raw_read_all(fd, answer, sizeof(answer));
    assert_int_equal(pthread_join(trickle.waker, NULL), 0);
    assert_non_null(strstr(answer, "\r\n0\r\n\r\n")); /* the end of the chunks */
    close(fd);
    serve_stop(&serve);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_route_says_how_fast_its_bodies_come),
        cmocka_unit_test(a_stream_that_is_quiet_is_not_broken_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
