/* How fast the bodies of a route must come. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

static const struct http_route routes[] = {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_route_says_how_fast_its_bodies_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
