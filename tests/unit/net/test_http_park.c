#include <stdlib.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/http_client.h"
#include "tests/support/test.h"
#include "tests/unit/net/serve.h"

/* Exchanges that wait for their reply, and the bounds on connections. State of handlers and
 * tests: */
struct desk {
    struct gate parked;   /* item: the exchange */
    struct gate ended;    /* http_on_end */
    struct gate hung_up;  /* http_on_hangup */
    struct gate released; /* of borrowed bodies */
    struct gate finished; /* exchanges */
    int last_status;      /* of finished; read after gate_wait */
    pthread_t replier;
    bool has_replier;
};

static void empty(void *context, struct http_exchange *exchange)
{
    (void)context;
    http_reply(exchange, 204, NULL, NULL, 0);
}

#define PAGE_BYTES ((size_t)16 << 20) /* more than the sockets hold */

static void page(void *context, struct http_exchange *exchange)
{
    (void)context;
    char *text = calloc(1, PAGE_BYTES);
    ASSERT(text);
    http_reply_header(exchange, "ETag", "\"1\"");
    http_reply(exchange, 200, "text/plain", text, PAGE_BYTES);
    free(text);
}

static void on_end(void *arg)
{
    struct desk *desk = arg;
    gate_pass(&desk->ended, NULL);
}

static void park(void *context, struct http_exchange *exchange)
{
    struct desk *desk = context;
    http_on_end(exchange, on_end, desk);
    gate_pass(&desk->parked, exchange);
}

static void on_hangup(void *arg)
{
    struct desk *desk = arg;
    gate_pass(&desk->hung_up, NULL);
}

static void park_watched(void *context, struct http_exchange *exchange)
{
    struct desk *desk = context;
    http_on_hangup(exchange, on_hangup, desk);
    gate_pass(&desk->parked, exchange);
}

static void *reply_from_thread(void *arg)
{
    http_reply(arg, 204, NULL, NULL, 0);
    return NULL;
}

/* The reply comes from another thread, perhaps before this function returns. */
static void race(void *context, struct http_exchange *exchange)
{
    struct desk *desk = context;
    if (desk->has_replier) {
        pthread_join(desk->replier, NULL);
    }
    ASSERT(pthread_create(&desk->replier, NULL, reply_from_thread, exchange) == 0);
    desk->has_replier = true;
}

static void release(void *arg)
{
    struct desk *desk = arg;
    gate_pass(&desk->released, NULL);
}

static void finished(void *context, const struct http_exchange *exchange, int status,
                     double seconds)
{
    (void)exchange;
    (void)seconds;
    struct desk *desk = context;
    desk->last_status = status;
    gate_pass(&desk->finished, NULL);
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/empty", .handle = empty},
    {.method = "GET", .pattern = "/page", .handle = page},
    {.method = "POST", .pattern = "/page", .handle = page},
    {.method = "GET", .pattern = "/park", .handle = park},
    {.method = "GET", .pattern = "/race", .handle = race},
    {.method = "GET", .pattern = "/reserved", .handle = empty},
    {.method = "POST", .pattern = "/collect", .handle = empty, .body_max = 1u << 20},
    {.method = "GET", .pattern = "/watched", .handle = park_watched},
};

struct fixture {
    struct desk desk;
    struct serve serve;
    struct http_client *client;
};

static bool is_reserved(void *context, const struct http_exchange *exchange)
{
    (void)context;
    return strcmp(http_path(exchange), "/reserved") == 0;
}

static int open_with(void **state, size_t connections_max, int64_t timeout_ms)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    gate_init(&f->desk.parked);
    gate_init(&f->desk.ended);
    gate_init(&f->desk.hung_up);
    gate_init(&f->desk.released);
    gate_init(&f->desk.finished);
    struct http_server_config config =
        serve_config(routes, sizeof(routes) / sizeof(routes[0]), &f->desk);
    config.finished = finished;
    config.connections_max = connections_max;
    config.is_reserved = is_reserved;
    config.replies_max_bytes = PAGE_BYTES + PAGE_BYTES / 2;
    config.header_timeout_ms = config.progress_timeout_ms = config.idle_timeout_ms = timeout_ms;
    serve_start(&f->serve, &config);
    struct err err = {0};
    assert_ok(http_client_new(&f->client, &err), &err);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return open_with(state, 16, 60000);
}

static int setup_two_connections(void **state)
{
    return open_with(state, 2, 60000);
}

static int setup_short_times(void **state)
{
    return open_with(state, 16, 200);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    http_client_free(&f->client);
    if (f->serve.server) {
        serve_stop(&f->serve);
    }
    if (f->desk.has_replier) {
        pthread_join(f->desk.replier, NULL);
    }
    gate_done(&f->desk.parked);
    gate_done(&f->desk.ended);
    gate_done(&f->desk.hung_up);
    gate_done(&f->desk.released);
    gate_done(&f->desk.finished);
    free(f);
    return 0;
}

static int ask(struct fixture *f, const char *method, const char *path)
{
    struct serve_url url = serve_url(&f->serve, path);
    struct http_call call = {.method = method, .url = url.text, .timeout_ms = 20000};
    struct http_result result;
    struct err err = {0};
    assert_ok(http_client_call(f->client, &call, &result, &err), &err);
    return result.status;
}

static int get(struct fixture *f, const char *path)
{
    return ask(f, "GET", path);
}

static void a_long_poll_ends_when_its_client_hangs_up(void **state)
{
    struct fixture *f = *state;
    for (int i = 1; i <= 20; i++) {
        int fd = raw_connect(&f->serve);
        raw_send(fd, "GET /watched HTTP/1.1\r\nHost: x\r\n\r\n");
        gate_wait(&f->desk.parked, i);
        assert_int_equal(gate_count(&f->desk.hung_up), i - 1);
        if (i % 2) {
            struct linger reset = {.l_onoff = 1};
            assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
        }
        close(fd);
        gate_wait(&f->desk.finished, i);
        assert_int_equal(gate_count(&f->desk.hung_up), i);
    }
}

static void a_client_that_hung_up_before_its_long_poll_was_parked_is_seen_as_well(void **state)
{
    struct fixture *f = *state;
    for (int i = 1; i <= 20; i++) {
        int fd = raw_connect(&f->serve);
        raw_send(fd, "GET /watched HTTP/1.1\r\nHost: x\r\n\r\n");
        close(fd);
        gate_wait(&f->desk.finished, i);
    }
}

static void a_client_that_only_stops_sending_gets_its_reply(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(&f->serve);
    raw_send(fd, "GET /park HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    struct http_exchange *exchange = gate_wait(&f->desk.parked, 1);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(get(f, "/empty"), 204);
    http_reply(exchange, 204, NULL, NULL, 0);
    char reply[512];
    raw_read_all(fd, reply, sizeof(reply));
    assert_holds(reply, "204");
    close(fd);
}

static void a_parked_exchange_whose_client_resets_the_connection_ends(void **state)
{
    struct fixture *f = *state;
    struct linger reset = {.l_onoff = 1};
    int fd = raw_connect(&f->serve);
    raw_send(fd, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
    gate_wait(&f->desk.parked, 1);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    close(fd);
    gate_wait(&f->desk.ended, 1);
    gate_wait(&f->desk.finished, 1);
}

static void a_hangup_after_the_reply_is_not_reported(void **state)
{
    struct fixture *f = *state;
    char reply[512];
    int fd = raw_connect(&f->serve);
    for (int i = 1; i <= 5; i++) {
        raw_send(fd, "GET /watched HTTP/1.1\r\nHost: x\r\n\r\n");
        http_reply(gate_wait(&f->desk.parked, i), 204, NULL, NULL, 0);
        raw_read_until(fd, "\r\n\r\n", reply, sizeof(reply));
    }
    close(fd);
    assert_int_equal(get(f, "/empty"), 204);
    assert_int_equal(gate_count(&f->desk.hung_up), 0);
}

static void a_parked_exchange_is_replied_to_from_another_thread(void **state)
{
    struct fixture *f = *state;
    for (int i = 1; i <= 20; i++) {
        int fd = raw_connect(&f->serve);
        raw_send(fd, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
        struct http_exchange *exchange = gate_wait(&f->desk.parked, i);
        /* The server is free for others. */
        assert_int_equal(get(f, "/empty"), 204);
        reply_text(exchange, 200, "at last");
        char answer[1024];
        raw_read_until(fd, "at last", answer, sizeof(answer));
        close(fd);
    }
    assert_int_equal(gate_count(&f->desk.ended), 0);
}

static void a_reply_that_overtakes_the_parking_is_not_lost(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 300; i++) {
        assert_int_equal(get(f, "/race"), 204);
    }
}

static void closing_ends_parked_exchanges_exactly_once(void **state)
{
    struct fixture *f = *state;
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = raw_connect(&f->serve);
        raw_send(fds[i], "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
        gate_wait(&f->desk.parked, i + 1);
    }
    serve_stop(&f->serve);
    assert_int_equal(gate_count(&f->desk.ended), 3);
    assert_int_equal(gate_count(&f->desk.finished), 3);
    assert_int_equal(f->desk.last_status, 0);
    for (int i = 0; i < 3; i++) {
        char answer[100];
        raw_read_all(fds[i], answer, sizeof(answer));
        assert_string_equal(answer, "");
        close(fds[i]);
    }
}

static void a_reply_to_a_client_that_went_away_is_harmless(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(&f->serve);
    raw_send(fd, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
    struct http_exchange *exchange = gate_wait(&f->desk.parked, 1);
    close(fd);
    http_reply_borrowed(exchange, 200, "text/plain", "gone", 4, release, &f->desk);
    gate_wait(&f->desk.released, 1);
    gate_wait(&f->desk.finished, 1);
    assert_int_equal(gate_count(&f->desk.ended), 0);
    assert_int_equal(get(f, "/empty"), 204);
}

/* Parts of requests that say nothing of their end. */
static const char *const torsos[] = {
    "GET /",
    "GET /empty HTTP/1.1\r\nHost: x\r\nX-Half: ",
    "\x16\x03\x01\x02",
    "POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551614\r\n\r\nabc",
    "POST /collect HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
    "",
};

static void vanished_clients_give_their_places_back(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 300; i++) {
        int fd = raw_connect(&f->serve);
        raw_send(fd, torsos[i % (sizeof(torsos) / sizeof(torsos[0]))]);
        close(fd);
    }
    /* All of them had their turn before this one, so that nothing but the places is in its way. */
    int parked = raw_connect(&f->serve);
    raw_send(parked, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
    http_reply(gate_wait(&f->desk.parked, 1), 204, NULL, NULL, 0);
    char answer[1024];
    raw_read_until(parked, "HTTP/1.1 204 ", answer, sizeof(answer));
    close(parked);
}

static void requests_beyond_the_bound_are_answered_by_busy(void **state)
{
    struct fixture *f = *state;
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = raw_connect(&f->serve);
        raw_send(fds[i], "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
        gate_wait(&f->desk.parked, i + 1);
    }
    assert_int_equal(get(f, "/empty"), 503);
    assert_int_equal(get(f, "/reserved"), 204);
    http_reply(f->desk.parked.item, 204, NULL, NULL, 0);
    char answer[1024];
    raw_read_until(fds[1], "HTTP/1.1 204 ", answer, sizeof(answer));
    assert_int_equal(get(f, "/empty"), 204);
    close(fds[0]);
    close(fds[1]);
}

static void large_replies_that_are_not_read_share_a_bound(void **state)
{
    struct fixture *f = *state;
    char answer[2048];
    int fd = raw_connect(&f->serve);
    raw_send(fd, "GET /page HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_read_until(fd, "HTTP/1.1 200 ", answer, sizeof(answer));
    raw_ask(&f->serve, "GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", answer,
            sizeof(answer));
    assert_non_null(strstr(answer, "HTTP/1.1 503 "));
    assert_null(strstr(answer, "ETag"));
    assert_int_equal(get(f, "/empty"), 204);
    /* A request that may have changed state is always answered. */
    assert_int_equal(ask(f, "POST", "/page"), 200);
    const int before = gate_count(&f->desk.finished);
    close(fd);
    gate_wait(&f->desk.finished, before + 1);
    assert_int_equal(get(f, "/page"), 200);
}

static void a_full_table_lets_the_latest_headers_go_first(void **state)
{
    struct fixture *f = *state;
    int fds[200];
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        fds[i] = raw_connect(&f->serve);
        raw_send(fds[i], "GET /empty HTTP/1.1\r\n");
    }
    assert_int_equal(get(f, "/empty"), 204);
    char answer[100];
    raw_read_all(fds[0], answer, sizeof(answer));
    assert_string_equal(answer, "");
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        close(fds[i]);
    }
}

static void idle_and_dawdling_connections_are_closed(void **state)
{
    struct fixture *f = *state;
    enum { SILENT, HEADER, CREEPING, BODY, AGAIN, COUNT };
    int fd[COUNT];
    char answer[1024];
    for (int i = 0; i < COUNT; i++) {
        fd[i] = raw_connect(&f->serve);
    }
    raw_send(fd[HEADER], "GET /empty HTTP/1.1\r\nHost:");
    raw_send(fd[BODY],
             "POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n0123456789");
    raw_send(fd[AGAIN], "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_read_until(fd[AGAIN], "HTTP/1.1 204 ", answer, sizeof(answer));
    int parked = raw_connect(&f->serve);
    raw_send(parked, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
    /* One byte now and then does not help. */
    struct pollfd creeping = {.fd = fd[CREEPING], .events = POLLIN};
    while (poll(&creeping, 1, 20) == 0) {
        (void)send(fd[CREEPING], "X", 1, MSG_NOSIGNAL);
    }
    for (int i = 0; i < COUNT; i++) {
        raw_read_all(fd[i], answer, sizeof(answer));
        assert_null(strstr(answer, "HTTP/1.1 2"));
        close(fd[i]);
    }
    /* A parked exchange is not idle. */
    http_reply(gate_wait(&f->desk.parked, 1), 204, NULL, NULL, 0);
    raw_read_until(parked, "HTTP/1.1 204 ", answer, sizeof(answer));
    close(parked);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_parked_exchange_is_replied_to_from_another_thread),
        TEST(a_long_poll_ends_when_its_client_hangs_up),
        TEST(a_client_that_hung_up_before_its_long_poll_was_parked_is_seen_as_well),
        TEST(a_client_that_only_stops_sending_gets_its_reply),
        TEST(a_parked_exchange_whose_client_resets_the_connection_ends),
        TEST(a_hangup_after_the_reply_is_not_reported),
        TEST(a_reply_that_overtakes_the_parking_is_not_lost),
        TEST(closing_ends_parked_exchanges_exactly_once),
        TEST(a_reply_to_a_client_that_went_away_is_harmless),
        TEST(vanished_clients_give_their_places_back),
        TEST(large_replies_that_are_not_read_share_a_bound),
        TEST(a_full_table_lets_the_latest_headers_go_first),
        cmocka_unit_test_setup_teardown(requests_beyond_the_bound_are_answered_by_busy,
                                        setup_two_connections, teardown),
        cmocka_unit_test_setup_teardown(idle_and_dawdling_connections_are_closed, setup_short_times,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
