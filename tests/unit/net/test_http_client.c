#include "net/http_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "tests/support/test.h"
#include "tests/unit/net/serve.h"

struct desk {
    struct gate parked;
};

/* Echo the request: method, the client's headers, and the body. */
static void mirror(void *context, struct http_exchange *exchange)
{
    (void)context;
    static const char *const names[] = {"Authorization", "Content-Type", "X-A",    "X-B",
                                        "X-C",           "X-D",          "Expect", "User-Agent"};
    BUF_AUTO struct buf out;
    buf_init(&out, 8 << 20);
    assert_ok(buf_printf(&out, NULL, "%s", http_method(exchange)), NULL);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = http_header(exchange, names[i]);
        if (value) {
            assert_ok(buf_printf(&out, NULL, " %s=%s", names[i], value), NULL);
        }
    }
    size_t size = 0;
    const char *body = http_body(exchange, &size);
    assert_ok(buf_printf(&out, NULL, " size=%zu body=", size), NULL);
    assert_ok(buf_append(&out, body, size, NULL), NULL);
    http_reply(exchange, 200, "text/plain", out.data, out.size);
}

static void park(void *context, struct http_exchange *exchange)
{
    struct desk *desk = context;
    gate_pass(&desk->parked, exchange);
}

static void fault(void *context, struct http_exchange *exchange)
{
    (void)context;
    http_reply(exchange, 409, "application/problem+json", "{\"code\":\"stale\"}", 16);
}

static void redirect(void *context, struct http_exchange *exchange)
{
    (void)context;
    http_reply_header(exchange, "Location", "/mirror");
    http_reply(exchange, 302, NULL, NULL, 0);
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/mirror", .handle = mirror},
    {.method = "POST", .pattern = "/mirror", .handle = mirror, .body_max = 4 << 20},
    {.method = "PUT", .pattern = "/mirror", .handle = mirror, .body_max = 4 << 20},
    {.method = "DELETE", .pattern = "/mirror", .handle = mirror, .body_max = 100},
    {.method = "GET", .pattern = "/park", .handle = park},
    {.method = "PUT", .pattern = "/park", .handle = park, .body_max = 100},
    {.method = "GET", .pattern = "/fault", .handle = fault},
    {.method = "GET", .pattern = "/redirect", .handle = redirect},
};
#define ROUTE_COUNT (sizeof(routes) / sizeof(routes[0]))

struct fixture {
    struct desk desk;
    struct serve serve;
    struct http_client *client;
    struct buf reply;
    struct http_result result;
    struct err err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    gate_init(&f->desk.parked);
    struct http_server_config config = serve_config(routes, ROUTE_COUNT, &f->desk);
    serve_start(&f->serve, &config);
    assert_ok(http_client_new(&f->client, &f->err), &f->err);
    buf_init(&f->reply, 8 << 20);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    http_client_free(&f->client);
    assert_null(f->client);
    serve_stop(&f->serve);
    buf_done(&f->reply);
    gate_done(&f->desk.parked);
    free(f);
    return 0;
}

static void methods_headers_and_bodies_arrive_as_described(void **state)
{
    struct fixture *f = *state;
    struct serve_url url = serve_url(&f->serve, "/mirror");
    static const struct {
        struct http_call call;
        const char *expected;
    } cases[] = {
        {{.method = "GET"}, "GET User-Agent=paceline/" PACELINE_VERSION " size=0 body="},
        {{.method = "POST"}, "POST User-Agent=paceline/" PACELINE_VERSION " size=0 body="},
        {{.method = "PUT", .bearer = "secret", .content_type = "text/x", .body = {{"one", 3}}},
         "PUT Authorization=Bearer secret Content-Type=text/x User-Agent=paceline/" PACELINE_VERSION
         " size=3 body=one"},
        {{.method = "PUT",
          .bearer = "secret",
          .content_type = "text/x",
          .body = {{"one", 3}, {"two", 3}}},
         "PUT Authorization=Bearer secret Content-Type=text/x User-Agent=paceline/" PACELINE_VERSION
         " size=6 body=onetwo"},
        {{.method = "POST", .body = {{NULL, 0}, {"two", 3}}},
         "POST User-Agent=paceline/" PACELINE_VERSION " size=3 body=two"},
        {{.method = "POST",
          .header = {"X-A: 1", "X-B: 2", "X-C: 3", "X-D: 4"},
          .bearer = "t",
          .body = {{"x", 1}}},
         "POST Authorization=Bearer t X-A=1 X-B=2 X-C=3 X-D=4 User-Agent=paceline/" PACELINE_VERSION
         " size=1 body=x"},
        {{.method = "DELETE", .header = {"X-A: 1"}},
         "DELETE X-A=1 User-Agent=paceline/" PACELINE_VERSION " size=0 body="},
        {{.method = "DELETE", .body = {{"why", 3}}},
         "DELETE User-Agent=paceline/" PACELINE_VERSION " size=3 body=why"},
    };
    /* Twice, so that each follows each other kind on the one handle. */
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        size_t index = i * 3 % (sizeof(cases) / sizeof(cases[0]));
        struct http_call call = cases[index].call;
        call.url = url.text;
        call.reply = &f->reply;
        assert_ok(http_client_call(f->client, &call, &f->result, &f->err), &f->err);
        assert_int_equal(f->result.status, 200);
        assert_string_equal(f->reply.data, cases[index].expected);
    }
}

static void two_large_pieces_are_sent_one_after_the_other(void **state)
{
    struct fixture *f = *state;
    struct serve_url url = serve_url(&f->serve, "/mirror");
    size_t sizes[HTTP_CALL_PIECES_MAX] = {1234567, 2345678};
    char *piece[HTTP_CALL_PIECES_MAX];
    for (size_t i = 0; i < HTTP_CALL_PIECES_MAX; i++) {
        piece[i] = malloc(sizes[i]);
        assert_non_null(piece[i]);
        for (size_t j = 0; j < sizes[i]; j++) {
            piece[i][j] = (char)(j * (13 + i) >> 3);
        }
    }
    struct http_call call = {.method = "POST",
                             .url = url.text,
                             .body = {{piece[0], sizes[0]}, {piece[1], sizes[1]}},
                             .reply = &f->reply};
    assert_ok(http_client_call(f->client, &call, &f->result, &f->err), &f->err);
    const char *body = strstr(f->reply.data, "body=") + 5;
    assert_int_equal((size_t)(f->reply.data + f->reply.size - body), sizes[0] + sizes[1]);
    assert_memory_equal(body, piece[0], sizes[0]);
    assert_memory_equal(body + sizes[0], piece[1], sizes[1]);
    free(piece[0]);
    free(piece[1]);
}

struct reader {
    uint64_t left;
    int fail_at_left; /* -1: never */
    bool ends_early;
};

static ssize_t read_body(void *arg, void *out, size_t size)
{
    struct reader *reader = arg;
    if (reader->fail_at_left >= 0 && reader->left <= (uint64_t)reader->fail_at_left) {
        return reader->ends_early ? 0 : -1;
    }
    size_t count = reader->left < size ? (size_t)reader->left : size;
    count = count > 10000 ? 10000 : count;
    memset(out, 'r', count);
    reader->left -= count;
    return (ssize_t)count;
}

static void a_body_is_read_piece_by_piece(void **state)
{
    struct fixture *f = *state;
    struct serve_url url = serve_url(&f->serve, "/mirror");
    struct reader reader = {.left = 1000001, .fail_at_left = -1};
    struct http_call call = {.method = "PUT",
                             .url = url.text,
                             .read = read_body,
                             .read_arg = &reader,
                             .body_size = 1000001,
                             .reply = &f->reply};
    assert_ok(http_client_call(f->client, &call, &f->result, &f->err), &f->err);
    assert_holds(f->reply.data, "size=1000001 body=rrrr");

    reader = (struct reader){.left = 1000001, .fail_at_left = 5000};
    assert_int_equal(http_client_call(f->client, &call, &f->result, &f->err), ERR_IO);
    assert_holds(f->err.text, "/mirror: cannot read the request body");

    reader = (struct reader){.left = 1000001, .fail_at_left = 500000, .ends_early = true};
    assert_int_equal(http_client_call(f->client, &call, &f->result, &f->err), ERR_FORMAT);
    assert_holds(f->err.text, "of 1000001 bytes");
}

struct taker {
    size_t size;
    int rc;
};

static int take(void *arg, const void *data, size_t size)
{
    (void)data;
    struct taker *taker = arg;
    taker->size += size;
    return taker->rc;
}

static void good_answers_go_to_write_and_others_to_reply(void **state)
{
    struct fixture *f = *state;
    struct serve_url url = serve_url(&f->serve, "/mirror");
    struct taker taker = {0};
    struct http_call call = {
        .method = "GET", .url = url.text, .reply = &f->reply, .write = take, .write_arg = &taker};
    assert_ok(http_client_call(f->client, &call, &f->result, &f->err), &f->err);
    assert_int_equal(taker.size, f->result.content_length);
    assert_int_equal(f->reply.size, 0);

    struct serve_url bad = serve_url(&f->serve, "/fault");
    call.url = bad.text;
    taker.size = 0;
    assert_ok(http_client_call(f->client, &call, &f->result, &f->err), &f->err);
    assert_int_equal(f->result.status, 409);
    assert_string_equal(f->result.content_type, "application/problem+json");
    assert_int_equal(taker.size, 0);
    assert_string_equal(f->reply.data, "{\"code\":\"stale\"}");

    call.reply = NULL;
    assert_ok(http_client_call(f->client, &call, &f->result, &f->err), &f->err);

    call.url = url.text;
    taker.rc = ERR_FULL;
    assert_int_equal(http_client_call(f->client, &call, &f->result, &f->err), ERR_FULL);
    assert_holds(f->err.text, "GET http://127.0.0.1:");
}

static void an_answer_over_the_bound_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct serve_url url = serve_url(&f->serve, "/mirror");
    BUF_AUTO struct buf small;
    buf_init(&small, 10);
    struct http_call call = {.method = "GET", .url = url.text, .reply = &small};
    assert_int_equal(http_client_call(f->client, &call, &f->result, &f->err), ERR_LIMIT);
    assert_holds(f->err.text, "the response is too long: more than 10 bytes");
}

static void redirects_are_not_followed(void **state)
{
    struct fixture *f = *state;
    struct serve_url url = serve_url(&f->serve, "/redirect");
    struct http_call call = {.method = "GET", .url = url.text, .reply = &f->reply};
    assert_ok(http_client_call(f->client, &call, &f->result, &f->err), &f->err);
    assert_int_equal(f->result.status, 302);
}

#define PLAIN_URL_SIZE 64

/* A socket of the test's own on a free loopback port, and its URL. */
static int plain_bind(char url[PLAIN_URL_SIZE])
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(where);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&where, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&where, &size), 0);
    (void)snprintf(url, PLAIN_URL_SIZE, "http://127.0.0.1:%u/x", (unsigned)ntohs(where.sin_port));
    return fd;
}

static void a_refused_connection_is_a_network_error_in_one_line(void **state)
{
    struct fixture *f = *state;
    char url[PLAIN_URL_SIZE];
    int fd = plain_bind(url); /* does not listen */
    struct http_call call = {.method = "PUT", .url = url, .body = {{"x", 1}}};
    assert_int_equal(http_client_call(f->client, &call, &f->result, &f->err), ERR_NETWORK);
    assert_holds(f->err.text, "PUT http://127.0.0.1:");
    assert_holds(f->err.text, "Failed to connect");
    assert_null(strchr(f->err.text, '\n'));
    close(fd);
}

static void other_protocols_and_broken_urls_are_invalid(void **state)
{
    struct fixture *f = *state;
    static const char *const urls[] = {"file:///etc/passwd", "ftp://127.0.0.1/x", "http://",
                                       "http://[::1/", ""};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct http_call call = {.method = "GET", .url = urls[i], .reply = &f->reply};
        assert_int_equal(http_client_call(f->client, &call, &f->result, &f->err), ERR_INVALID);
        assert_int_equal(f->reply.size, 0);
    }
}

static void a_server_that_parks_runs_into_the_timeout(void **state)
{
    struct fixture *f = *state;
    struct serve_url url = serve_url(&f->serve, "/park");
    struct http_call call = {.method = "GET", .url = url.text, .timeout_ms = 50};
    assert_int_equal(http_client_call(f->client, &call, &f->result, &f->err), ERR_TIMEOUT);
    assert_holds(f->err.text, "/park: ");
    http_reply(gate_wait(&f->desk.parked, 1), 204, NULL, NULL, 0);
}

static void a_call_without_progress_is_stalled(void **state)
{
    struct fixture *f = *state;
    struct serve_url url = serve_url(&f->serve, "/park");
    struct http_call call = {.method = "PUT", .url = url.text, .body = {{"x", 1}}, .stall_ms = 50};
    assert_int_equal(http_client_call(f->client, &call, &f->result, &f->err), ERR_TIMEOUT);
    assert_holds(f->err.text, "/park: no byte moved for 50 ms");
    http_reply(gate_wait(&f->desk.parked, 1), 204, NULL, NULL, 0);
}

static void *cancel_when_parked(void *arg)
{
    void **both = arg;
    (void)gate_wait(both[0], 1);
    atomic_bool *cancel = both[1];
    atomic_store(cancel, true);
    return NULL;
}

static void a_call_is_cancelled_from_another_thread(void **state)
{
    struct fixture *f = *state;
    struct serve_url url = serve_url(&f->serve, "/park");
    atomic_bool cancel = false;
    void *both[] = {&f->desk.parked, &cancel};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_when_parked, both), 0);
    struct http_call call = {.method = "GET", .url = url.text, .cancel = &cancel};
    assert_int_equal(http_client_call(f->client, &call, &f->result, &f->err), ERR_CANCELLED);
    assert_holds(f->err.text, "/park: cancelled");
    assert_int_equal(pthread_join(thread, NULL), 0);
    http_reply(gate_wait(&f->desk.parked, 1), 204, NULL, NULL, 0);
}

static void calls_go_on_over_a_restart_of_the_server(void **state)
{
    struct fixture *f = *state;
    struct http_server_config config = serve_config(routes, ROUTE_COUNT, &f->desk);
    char piece[100] = {0};
    for (int i = 0; i < 20; i++) {
        struct serve_url url = serve_url(&f->serve, "/mirror");
        struct http_call call = {.method = i % 2 ? "PUT" : "GET",
                                 .url = url.text,
                                 .body = {{piece, i % 2 ? 50 : 0}, {piece, i % 2 ? 50 : 0}},
                                 .reply = &f->reply};
        for (int j = 0; j < 3; j++) {
            assert_ok(http_client_call(f->client, &call, &f->result, &f->err), &f->err);
            assert_int_equal(f->result.status, 200);
        }
        config.listen = *http_server_address(f->serve.server);
        serve_stop(&f->serve);
        serve_start(&f->serve, &config);
    }
}

/* A listening socket and a thread that plays the server on it. */
struct plain {
    int listener;
    pthread_t thread;
    char url[PLAIN_URL_SIZE];
};

static void plain_start(struct plain *plain, void *(*play)(void *listener))
{
    plain->listener = plain_bind(plain->url);
    assert_int_equal(listen(plain->listener, 8), 0);
    assert_int_equal(pthread_create(&plain->thread, NULL, play, &plain->listener), 0);
}

static void plain_stop(struct plain *plain)
{
    assert_int_equal(pthread_join(plain->thread, NULL), 0);
    close(plain->listener);
}

/* A server that answers the first request of a connection and closes it on the second, unread, as
 * when a keep-alive timeout crosses a request. */
static void *flaky_server(void *arg)
{
    int listener = *(int *)arg;
    for (int i = 0; i < 2; i++) {
        int fd = accept(listener, NULL, NULL);
        ASSERT(fd >= 0);
        for (int j = 0; j < 2 - i; j++) {
            char request[4096];
            ssize_t count = recv(fd, request, sizeof(request), 0);
            ASSERT(count > 0);
            if (j == 1) {
                break;
            }
            static const char answer[] = "HTTP/1.1 204 No Content\r\n\r\n";
            ASSERT(send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL) ==
                   (ssize_t)sizeof(answer) - 1);
        }
        close(fd);
    }
    return NULL;
}

static void a_kept_connection_that_dies_is_replaced(void **state)
{
    struct fixture *f = *state;
    struct plain plain;
    plain_start(&plain, flaky_server);
    struct http_call call = {.method = "GET", .url = plain.url, .timeout_ms = 20000};
    for (int i = 0; i < 2; i++) {
        assert_ok(http_client_call(f->client, &call, &f->result, &f->err), &f->err);
        assert_int_equal(f->result.status, 204);
    }
    plain_stop(&plain);
}

static void *ssh_server(void *arg)
{
    static const char answer[] = "SSH-2.0-OpenSSH_9.2\r\n";
    char request[4096];
    int fd = accept(*(int *)arg, NULL, NULL);
    ASSERT(fd >= 0);
    ASSERT(recv(fd, request, sizeof(request), 0) > 0);
    ASSERT(send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL) == (ssize_t)sizeof(answer) - 1);
    close(fd);
    return NULL;
}

static void a_reply_that_is_not_http_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct plain plain;
    plain_start(&plain, ssh_server);
    struct http_call call = {.method = "GET", .url = plain.url, .timeout_ms = 20000};
    assert_int_equal(http_client_call(f->client, &call, &f->result, &f->err), ERR_PROTOCOL);
    plain_stop(&plain);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(methods_headers_and_bodies_arrive_as_described),
        TEST(two_large_pieces_are_sent_one_after_the_other),
        TEST(a_body_is_read_piece_by_piece),
        TEST(good_answers_go_to_write_and_others_to_reply),
        TEST(an_answer_over_the_bound_is_an_error),
        TEST(redirects_are_not_followed),
        TEST(a_refused_connection_is_a_network_error_in_one_line),
        TEST(other_protocols_and_broken_urls_are_invalid),
        TEST(a_server_that_parks_runs_into_the_timeout),
        TEST(a_call_without_progress_is_stalled),
        TEST(a_call_is_cancelled_from_another_thread),
        TEST(calls_go_on_over_a_restart_of_the_server),
        TEST(a_kept_connection_that_dies_is_replaced),
        TEST(a_reply_that_is_not_http_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
