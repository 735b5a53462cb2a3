#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/http_client.h"
#include "tests/support/test.h"
#include "tests/unit/net/serve.h"

/* State of handlers and tests. */
struct desk {
    struct gate released; /* of borrowed bodies */
    struct gate finished; /* exchanges */
    int last_status;      /* of finished; read after gate_wait */
};

static void append_query(void *arg, const char *name, const char *value)
{
    struct buf *out = arg;
    assert_ok(buf_printf(out, NULL, " %s=%s", name, value), NULL);
}

static void echo(void *context, struct http_exchange *exchange)
{
    (void)context;
    const char *mark = http_header(exchange, "x-MARK");
    const char *after = http_query(exchange, "after");
    BUF_AUTO struct buf out;
    buf_init(&out, 4096);
    assert_ok(buf_printf(&out, NULL, "%s %s id=%s part=%s mark=%s after=%s length=%d queries:",
                         http_method(exchange), http_path(exchange), http_param(exchange, "id"),
                         http_param(exchange, "part"), mark ? mark : "-", after ? after : "-",
                         (int)http_content_length(exchange)),
              NULL);
    http_each_query(exchange, append_query, &out);
    ASSERT(!http_fault(exchange));
    http_reply_header(exchange, "X-Request-Id", http_request_id(exchange));
    http_reply_header(exchange, "X-Forged", "a\r\nSet-Cookie: b");
    http_reply(exchange, 200, "text/plain", out.data, out.size);
}

static void collect(void *context, struct http_exchange *exchange)
{
    (void)context;
    size_t size = 0;
    const char *body = http_body(exchange, &size);
    ASSERT(body[size] == '\0');
    http_reply(exchange, 201, "application/octet-stream", body, size);
}

static void empty(void *context, struct http_exchange *exchange)
{
    (void)context;
    http_reply(exchange, 204, NULL, NULL, 0);
}

static char text_of_the_route[] = "busy";

static void busy(void *context, struct http_exchange *exchange)
{
    http_reply_header(exchange, "Retry-After", "2");
    reply_text(exchange, 503, context);
}

static void release(void *arg)
{
    struct desk *desk = arg;
    gate_pass(&desk->released, NULL);
}

static void borrowed(void *context, struct http_exchange *exchange)
{
    static const char body[] = "borrowed bytes";
    http_reply_borrowed(exchange, 200, "text/plain", body, sizeof(body) - 1, release, context);
}

static void guard(void *context, struct http_exchange *exchange)
{
    (void)context;
    const char *origin = http_header(exchange, "Origin");
    if (origin && strstr(origin, "evil")) {
        reply_text(exchange, 403, "forbidden_origin");
    }
}

static void finished(void *context, const struct http_exchange *exchange, int status,
                     double seconds)
{
    struct desk *desk = context;
    ASSERT(seconds >= 0 && strlen(http_request_id(exchange)) == 16);
    desk->last_status = status;
    gate_pass(&desk->finished, NULL);
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/echo/{id}/{part}", .handle = echo},
    {.method = "POST", .pattern = "/collect", .handle = collect, .body_max = 100000},
    {.method = "PUT", .pattern = "/collect", .handle = collect, .body_max = 1000},
    {.method = "DELETE", .pattern = "/empty", .handle = empty},
    {.method = "GET", .pattern = "/empty", .handle = empty},
    {.method = "GET", .pattern = "/busy", .handle = busy, .context = text_of_the_route},
    {.method = "GET", .pattern = "/borrowed", .handle = borrowed},
};

struct fixture {
    struct desk desk;
    struct serve serve;
    struct http_client *client;
    struct buf reply;
    struct http_result result;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    gate_init(&f->desk.released);
    gate_init(&f->desk.finished);
    struct http_server_config config =
        serve_config(routes, sizeof(routes) / sizeof(routes[0]), &f->desk);
    config.guard = guard;
    config.finished = finished;
    serve_start(&f->serve, &config);
    struct err err = {0};
    assert_ok(http_client_new(&f->client, &err), &err);
    buf_init(&f->reply, 1 << 20);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    http_client_free(&f->client);
    if (f->serve.server) {
        serve_stop(&f->serve);
    }
    buf_done(&f->reply);
    gate_done(&f->desk.released);
    gate_done(&f->desk.finished);
    free(f);
    return 0;
}

/* Make a call and return the status; the body is in f->reply. */
static int call(struct fixture *f, const char *method, const char *path, const void *body,
                size_t size)
{
    struct serve_url url = serve_url(&f->serve, path);
    struct http_call description = {.method = method,
                                    .url = url.text,
                                    .body = {{body, size}},
                                    .reply = &f->reply,
                                    .timeout_ms = 20000};
    struct err err = {0};
    assert_ok(http_client_call(f->client, &description, &f->result, &err), &err);
    return f->result.status;
}

static void a_handler_sees_all_of_the_request(void **state)
{
    struct fixture *f = *state;
    struct serve_url url = serve_url(&f->serve, "/echo/a%20b/c?after=7&x=%26");
    struct http_call description = {.method = "GET",
                                    .url = url.text,
                                    .header = {"X-Mark: yes", "X-Other: no"},
                                    .reply = &f->reply};
    struct err err = {0};
    assert_ok(http_client_call(f->client, &description, &f->result, &err), &err);
    assert_int_equal(f->result.status, 200);
    assert_string_equal(f->result.content_type, "text/plain");
    assert_string_equal(f->reply.data, "GET /echo/a%20b/c id=a b part=c mark=yes after=7 length=-1 "
                                       "queries: after=7 x=&");
    assert_int_equal(f->result.content_length, f->reply.size);
    assert_true(f->result.seconds > 0);
}

static void replies_carry_their_headers_and_no_forged_ones(void **state)
{
    struct fixture *f = *state;
    char text[4096];
    raw_ask(&f->serve, "GET /echo/1/2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            text, sizeof(text));
    assert_holds(text, "HTTP/1.1 200 OK\r\n");
    assert_holds(text, "X-Request-Id: ");
    assert_holds(text, "X-Forged: a??Set-Cookie: b\r\n");
    assert_null(strstr(text, "\r\nSet-Cookie"));
}

static void a_head_request_gets_the_headers_of_get(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(call(f, "HEAD", "/echo/1/2", NULL, 0), 200);
    assert_int_equal(f->reply.size, 0);
    assert_true(f->result.content_length > 50);
    assert_int_equal(call(f, "HEAD", "/collect", NULL, 0), 405);
    assert_int_equal(f->reply.size, 0);
}

static void an_unknown_path_is_404_and_an_unknown_method_405(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(call(f, "GET", "/nothing", NULL, 0), 404);
    assert_string_equal(f->reply.data, "not_found");
    assert_int_equal(call(f, "BREW", "/nothing", NULL, 0), 404);
    assert_int_equal(call(f, "BREW", "/empty", NULL, 0), 405);
    assert_string_equal(f->reply.data, "method_not_allowed");
    assert_int_equal(call(f, "OPTIONS", "/empty", NULL, 0), 405);

    char text[4096];
    raw_ask(&f->serve, "PATCH /empty HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            text, sizeof(text));
    assert_holds(text, "HTTP/1.1 405 ");
    assert_holds(text, "Allow: DELETE, GET, HEAD\r\n");
}

static void the_guard_runs_before_everything_else(void **state)
{
    struct fixture *f = *state;
    struct serve_url url = serve_url(&f->serve, "/nothing");
    struct http_call description = {.method = "GET",
                                    .url = url.text,
                                    .header = {"Origin: http://evil.example"},
                                    .reply = &f->reply};
    struct err err = {0};
    assert_ok(http_client_call(f->client, &description, &f->result, &err), &err);
    assert_int_equal(f->result.status, 403);
}

static void broken_urls_are_bad_requests_that_say_why(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(call(f, "GET", "/echo/%zz/1", NULL, 0), 400);
    assert_holds(f->reply.data, "percent-encoded");
    char path[3000];
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(call(f, "GET", path, NULL, 0), 400);
    assert_holds(f->reply.data, "longer than 2047 bytes");
}

static void a_request_beyond_all_bounds_is_refused_and_the_server_lives(void **state)
{
    struct fixture *f = *state;
    /* More headers than the memory of a connection holds. */
    size_t count = 6000;
    size_t line = 100;
    char *text = malloc(count * line + 200);
    assert_non_null(text);
    size_t used = (size_t)snprintf(text, 200, "GET /empty HTTP/1.1\r\nHost: localhost\r\n");
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, line + 1, "X-Header-%06zu: %070zu\r\n", i, i);
    }
    memcpy(text + used, "\r\n", 3);
    int fd = raw_connect(&f->serve);
    (void)send(fd, text, used + 2, MSG_NOSIGNAL);
    char answer[4096];
    raw_read_all(fd, answer, sizeof(answer));
    close(fd);
    free(text);
    assert_null(strstr(answer, "HTTP/1.1 204"));
    assert_int_equal(call(f, "GET", "/empty", NULL, 0), 204);

    /* Headers within it are fine, however many. */
    fd = raw_connect(&f->serve);
    raw_send(fd, "GET /echo/1/2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    for (int i = 0; i < 300; i++) {
        raw_send(fd, "X-Filler: 0123456789\r\n");
    }
    raw_send(fd, "X-Mark: last\r\n\r\n");
    raw_read_all(fd, answer, sizeof(answer));
    close(fd);
    assert_holds(answer, "mark=last");

    /* So is one long header. */
    fd = raw_connect(&f->serve);
    raw_send(fd, "GET /echo/1/2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Filler: ");
    for (int i = 0; i < 2400; i++) {
        raw_send(fd, "0123456789");
    }
    raw_send(fd, "\r\nX-Mark: long\r\n\r\n");
    raw_read_all(fd, answer, sizeof(answer));
    close(fd);
    assert_holds(answer, "mark=long");
}

static void rubbish_is_answered_with_400_or_a_closed_connection(void **state)
{
    struct fixture *f = *state;
    static const char *const cases[] = {
        "HELLO\r\n\r\n",
        "GET /empty HTTP/1.1\r\n\r\n",
        "GET  HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: 12x\r\n\r\n",
        "POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "POST /collect HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd = raw_connect(&f->serve);
        raw_send(fd, cases[i]);
        shutdown(fd, SHUT_WR);
        char answer[4096];
        raw_read_all(fd, answer, sizeof(answer));
        close(fd);
        assert_null(strstr(answer, "HTTP/1.1 2"));
    }
    assert_int_equal(call(f, "GET", "/empty", NULL, 0), 204);
}

/* A length above INT64_MAX must not count as no body, which has no deadline. */
static void a_length_beyond_all_counting_is_refused_on_any_request(void **state)
{
    struct fixture *f = *state;
    static const char *const lengths[] = {"9223372036854775808", "9999999999999999999",
                                          "18446744073709551614"};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        char request[256], answer[4096];
        (void)snprintf(request, sizeof(request),
                       "GET /empty HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n", lengths[i]);
        raw_ask(&f->serve, request, answer, sizeof(answer));
        assert_holds(answer, "HTTP/1.1 400 ");
        assert_holds(answer, "too large");

        int fd = raw_connect(&f->serve);
        raw_send(fd, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
        raw_read_until(fd, "HTTP/1.1 204 ", answer, sizeof(answer));
        raw_send(fd, request);
        raw_read_all(fd, answer, sizeof(answer));
        assert_holds(answer, "HTTP/1.1 400 ");
        close(fd);
    }
}

static void bodies_are_collected_up_to_their_bound(void **state)
{
    struct fixture *f = *state;
    char *body = malloc(100001);
    assert_non_null(body);
    for (size_t i = 0; i < 100001; i++) {
        body[i] = (char)(i * 7);
    }
    static const size_t sizes[] = {0, 1, 1000, 65536, 65537, 100000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(call(f, "POST", "/collect", body, sizes[i]), 201);
        assert_int_equal(f->reply.size, sizes[i]);
        assert_memory_equal(f->reply.data ? f->reply.data : "", body, sizes[i]);
    }
    assert_int_equal(call(f, "POST", "/collect", body, 100001), 413);
    assert_string_equal(f->reply.data, "too_large");
    assert_int_equal(call(f, "PUT", "/collect", body, 1001), 413);
    assert_int_equal(call(f, "PUT", "/collect", body, 1000), 201);
    /* A route without a body_max takes none. */
    assert_int_equal(call(f, "DELETE", "/empty", body, 1), 413);
    assert_int_equal(call(f, "DELETE", "/empty", NULL, 0), 204);
    free(body);
}

static void chunked_bodies_are_bounded_while_they_are_read(void **state)
{
    struct fixture *f = *state;
    char answer[8192];
    int fd = raw_connect(&f->serve);
    raw_send(fd, "PUT /collect HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
    raw_read_until(fd, "hello world", answer, sizeof(answer));
    assert_holds(answer, "HTTP/1.1 201 ");

    /* On the same connection: 16 chunks of 100 bytes are more than 1000. */
    raw_send(fd, "PUT /collect HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    char chunk[120];
    (void)snprintf(chunk, sizeof(chunk), "64\r\n%0100d\r\n", 0);
    for (int i = 0; i < 16; i++) {
        raw_send(fd, chunk);
    }
    raw_send(fd, "0\r\n\r\n");
    raw_read_until(fd, "too_large", answer, sizeof(answer));
    assert_holds(answer, "HTTP/1.1 413 ");
    close(fd);
}

static void a_refused_body_is_not_taken_for_the_next_request(void **state)
{
    struct fixture *f = *state;
    static const char *const methods[] = {"POST", "PUT", "DELETE", "GET", "PATCH", "BREW"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        char request[300];
        const char *smuggled = "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n";
        (void)snprintf(request, sizeof(request),
                       "%s /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s",
                       methods[i], strlen(smuggled), smuggled);
        char answer[4096];
        raw_ask(&f->serve, request, answer, sizeof(answer));
        assert_holds(answer, "HTTP/1.1 404 ");
        assert_null(strstr(answer, "HTTP/1.1 204 "));
    }
}

static void empty_and_borrowed_replies_are_sent(void **state)
{
    struct fixture *f = *state;
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(call(f, "GET", "/empty", NULL, 0), 204);
        assert_int_equal(call(f, "GET", "/borrowed", NULL, 0), 200);
        assert_string_equal(f->reply.data, "borrowed bytes");
        gate_wait(&f->desk.released, i);
    }
    assert_int_equal(gate_count(&f->desk.released), 3);
}

static void retry_after_arrives_in_milliseconds(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(call(f, "GET", "/busy", NULL, 0), 503);
    assert_string_equal(f->reply.data, text_of_the_route);
    assert_int_equal(f->result.retry_after_ms, 2000);
    assert_int_equal(call(f, "GET", "/empty", NULL, 0), 204);
    assert_int_equal(f->result.retry_after_ms, 0);
}

static void every_exchange_is_counted_with_its_status(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(call(f, "GET", "/empty", NULL, 0), 204);
    gate_wait(&f->desk.finished, 1);
    assert_int_equal(f->desk.last_status, 204);
    assert_int_equal(call(f, "GET", "/nothing", NULL, 0), 404);
    gate_wait(&f->desk.finished, 2);
    assert_int_equal(f->desk.last_status, 404);
}

static void a_taken_port_is_an_error_that_names_it(void **state)
{
    struct fixture *f = *state;
    struct http_server_config config = serve_config(routes, 1, &f->desk);
    config.listen = *http_server_address(f->serve.server);
    struct http_server *second = NULL;
    struct err err = {0};
    assert_int_equal(http_server_open(&config, &second, &err), ERR_NETWORK);
    assert_null(second);
    assert_holds(err.text, "listen on 127.0.0.1:");
    assert_holds(err.text, "Address already in use");
}

static void it_listens_on_ipv6_too(void **state)
{
    (void)state;
    struct desk desk = {0};
    struct http_server_config config =
        serve_config(routes, sizeof(routes) / sizeof(routes[0]), &desk);
    struct err err = {0};
    assert_ok(address_parse("[::1]:0", &config.listen, &err), &err);
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool offered = probe >= 0 && bind(probe, (struct sockaddr *)&config.listen.storage,
                                      config.listen.length) == 0;
    if (probe >= 0) {
        close(probe);
    }
    if (!offered) {
        skip();
    }
    struct serve serve;
    serve_start(&serve, &config);
    char answer[1024];
    raw_ask(&serve, "GET /echo/1/2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", answer,
            sizeof(answer));
    assert_holds(answer, "GET /echo/1/2 id=1 part=2 ");
    serve_stop(&serve);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_handler_sees_all_of_the_request),
        TEST(replies_carry_their_headers_and_no_forged_ones),
        TEST(a_head_request_gets_the_headers_of_get),
        TEST(an_unknown_path_is_404_and_an_unknown_method_405),
        TEST(the_guard_runs_before_everything_else),
        TEST(broken_urls_are_bad_requests_that_say_why),
        TEST(a_request_beyond_all_bounds_is_refused_and_the_server_lives),
        TEST(rubbish_is_answered_with_400_or_a_closed_connection),
        TEST(a_length_beyond_all_counting_is_refused_on_any_request),
        TEST(bodies_are_collected_up_to_their_bound),
        TEST(chunked_bodies_are_bounded_while_they_are_read),
        TEST(a_refused_body_is_not_taken_for_the_next_request),
        TEST(empty_and_borrowed_replies_are_sent),
        TEST(retry_after_arrives_in_milliseconds),
        TEST(every_exchange_is_counted_with_its_status),
        TEST(a_taken_port_is_an_error_that_names_it),
        cmocka_unit_test(it_listens_on_ipv6_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
