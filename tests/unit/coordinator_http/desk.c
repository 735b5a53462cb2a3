#include "tests/unit/coordinator_http/desk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/support/test.h"

#define PATIENCE_MS 20000

static void say(void *context, struct http_exchange *exchange)
{
    (void)context;
    http_reply(exchange, 400, "text/plain", "fallback", 8);
}

struct desk *desk_open(const struct http_route *routes, size_t route_count, void *context)
{
    struct desk *desk = calloc(1, sizeof(*desk));
    assert_non_null(desk);
    struct http_server_config config = {
        .routes = routes,
        .route_count = route_count,
        .fallbacks = {say, say, say, say, say},
        .context = context,
        .connections_max = 64,
        .idle_timeout_ms = 60000,
    };
    struct err err = {0};
    assert_ok(address_parse("127.0.0.1:0", &config.listen, &err), &err);
    assert_ok(http_server_open(&config, &desk->server, &err), &err);
    return desk;
}

void desk_shut(struct desk *desk)
{
    http_server_close(&desk->server);
}

void desk_close(struct desk **desk)
{
    http_server_close(&(*desk)->server);
    free(*desk);
    *desk = NULL;
}

static void send_all(int fd, const char *text)
{
    size_t size = strlen(text);
    assert_int_equal(send(fd, text, size, MSG_NOSIGNAL), (ssize_t)size);
}

int desk_send_body(struct desk *desk, const char *request, const char *body)
{
    const struct address *address = http_server_address(desk->server);
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address->storage, address->length), 0);
    char head[4096];
    int length =
        snprintf(head, sizeof(head), "%s\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                 request, strlen(body));
    assert_true(length > 0 && (size_t)length < sizeof(head));
    send_all(fd, head);
    if (body[0]) {
        send_all(fd, body);
    }
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

int desk_send(struct desk *desk, const char *request)
{
    return desk_send_body(desk, request, "");
}

void desk_run(struct desk *desk)
{
    struct pollfd polled = {.fd = http_server_fd(desk->server), .events = POLLIN};
    do {
        http_server_run(desk->server);
    } while (poll(&polled, 1, 0) > 0 || http_server_timeout_ms(desk->server) == 0);
}

/* Append what has arrived. false: the connection has ended. */
static bool receive(struct desk *desk, int fd, size_t *size)
{
    for (;;) {
        assert_true(*size < sizeof(desk->text) - 1);
        ssize_t got = recv(fd, desk->text + *size, sizeof(desk->text) - 1 - *size, 0);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return true;
        }
        if (got <= 0) {
            return false;
        }
        *size += (size_t)got;
        desk->text[*size] = '\0';
    }
}

const char *desk_read(struct desk *desk, int fd, const char *part)
{
    size_t size = 0;
    desk->text[0] = '\0';
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += 100) {
        if (desk->server) {
            desk_run(desk);
        }
        bool open = receive(desk, fd, &size);
        if (part ? strstr(desk->text, part) != NULL : !open) {
            return desk->text;
        }
        if (!open) {
            break;
        }
        struct pollfd polled[] = {
            {.fd = fd, .events = POLLIN},
            {.fd = desk->server ? http_server_fd(desk->server) : -1, .events = POLLIN}};
        waited_ms -= poll(polled, 2, 100) > 0 ? 100 : 0;
    }
    fail_msg("'%s' did not come, only: %s", part ? part : "the end", desk->text);
    return NULL;
}

bool desk_is_silent(struct desk *desk, int fd)
{
    desk_run(desk);
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}
