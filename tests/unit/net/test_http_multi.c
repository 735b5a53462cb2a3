#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/http_client.h"
#include "tests/support/test.h"
#include "tests/unit/net/serve.h"

struct desk {
    struct gate parked;
};

static void hello(void *context, struct http_exchange *exchange)
{
    (void)context;
    http_reply(exchange, 200, "text/plain", "hello", 5);
}

static void park(void *context, struct http_exchange *exchange)
{
    struct desk *desk = context;
    gate_pass(&desk->parked, exchange);
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/hello", .handle = hello},
    {.method = "GET", .pattern = "/park", .handle = park},
};

/* One call and how it ended. */
struct ask {
    struct fixture *fixture;
    struct buf reply;
    int done; /* how often */
    int code;
    struct http_result result;
    struct err err;
    const char *again; /* start this call from within done */
};

#define ASKS 8

struct fixture {
    struct desk desk;
    struct serve serve;
    struct http_multi *multi;
    struct err err;
    struct ask ask[ASKS];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    gate_init(&f->desk.parked);
    struct http_server_config config =
        serve_config(routes, sizeof(routes) / sizeof(routes[0]), &f->desk);
    config.connections_max = 64;
    serve_start(&f->serve, &config);
    assert_ok(http_multi_new(&f->multi, &f->err), &f->err);
    for (size_t i = 0; i < ASKS; i++) {
        f->ask[i].fixture = f;
        buf_init(&f->ask[i].reply, 1000);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    http_multi_free(&f->multi);
    assert_null(f->multi);
    serve_stop(&f->serve);
    for (size_t i = 0; i < ASKS; i++) {
        buf_done(&f->ask[i].reply);
    }
    gate_done(&f->desk.parked);
    free(f);
    return 0;
}

static int start(struct fixture *f, struct ask *ask, const char *path, int64_t timeout_ms,
                 int64_t stall_ms);

static void on_done(void *arg, int code, const struct http_result *result, const struct err *err)
{
    struct ask *ask = arg;
    ask->done++;
    ask->code = code;
    assert_int_equal(result != NULL, code == 0);
    if (result) {
        ask->result = *result;
    }
    ask->err = *err;
    const char *again = ask->again;
    ask->again = NULL;
    if (again) {
        assert_true(start(ask->fixture, ask, again, 0, 0) >= 0);
    }
}

static struct serve_url kept[ASKS];

static int start(struct fixture *f, struct ask *ask, const char *path, int64_t timeout_ms,
                 int64_t stall_ms)
{
    struct serve_url *url = &kept[ask - f->ask];
    *url = serve_url(&f->serve, path);
    struct http_call call = {.method = "GET",
                             .url = url->text,
                             .reply = &ask->reply,
                             .timeout_ms = timeout_ms,
                             .stall_ms = stall_ms};
    return http_multi_start(f->multi, &call, on_done, ask, &f->err);
}

static void poll_until_done(struct fixture *f, struct ask *ask, int times)
{
    int64_t deadline_ms = clock_now_ms() + 20000;
    while (ask->done < times) {
        assert_true(clock_now_ms() < deadline_ms);
        assert_ok(http_multi_poll(f->multi, NULL, 0, 1000, &f->err), &f->err);
    }
}

static void several_calls_go_on_at_once(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < ASKS; i++) {
        assert_true(start(f, &f->ask[i], i % 2 ? "/hello" : "/park", 0, 0) >= 0);
    }
    for (int i = 1; i < ASKS; i += 2) {
        poll_until_done(f, &f->ask[i], 1);
        assert_int_equal(f->ask[i].code, 0);
        assert_int_equal(f->ask[i].result.status, 200);
        assert_string_equal(f->ask[i].reply.data, "hello");
    }
    /* All parked calls are still going; answering one of them ends one. */
    http_reply(gate_wait(&f->desk.parked, ASKS / 2), 204, NULL, NULL, 0);
    int done = 0;
    while (done == 0) {
        assert_ok(http_multi_poll(f->multi, NULL, 0, 1000, &f->err), &f->err);
        for (int i = 0; i < ASKS; i += 2) {
            done += f->ask[i].done;
        }
    }
    assert_int_equal(done, 1);
}

static void a_call_can_be_started_from_the_end_of_another(void **state)
{
    struct fixture *f = *state;
    f->ask[0].again = "/hello";
    assert_true(start(f, &f->ask[0], "/hello", 0, 0) >= 0);
    poll_until_done(f, &f->ask[0], 2);
    assert_int_equal(f->ask[0].result.status, 200);
}

static void a_cancelled_call_ends_once_with_the_next_poll(void **state)
{
    struct fixture *f = *state;
    int handle = start(f, &f->ask[0], "/park", 0, 0);
    assert_true(handle >= 0);
    assert_ok(http_multi_poll(f->multi, NULL, 0, 0, &f->err), &f->err);
    http_multi_cancel(f->multi, handle);
    assert_int_equal(f->ask[0].done, 0);
    assert_ok(http_multi_poll(f->multi, NULL, 0, 20000, &f->err), &f->err);
    assert_int_equal(f->ask[0].done, 1);
    assert_int_equal(f->ask[0].code, ERR_CANCELLED);
    assert_holds(f->ask[0].err.text, "/park: cancelled");

    /* Its handle means nothing to the call that takes its place. */
    assert_true(start(f, &f->ask[1], "/hello", 0, 0) >= 0);
    http_multi_cancel(f->multi, handle);
    http_multi_cancel(f->multi, -1);
    http_multi_cancel(f->multi, 255);
    poll_until_done(f, &f->ask[1], 1);
    assert_int_equal(f->ask[1].code, 0);
    assert_int_equal(f->ask[0].done, 1);
}

static void deadlines_end_calls(void **state)
{
    struct fixture *f = *state;
    assert_true(start(f, &f->ask[0], "/park", 50, 0) >= 0);
    assert_true(start(f, &f->ask[1], "/park", 0, 50) >= 0);
    poll_until_done(f, &f->ask[0], 1);
    poll_until_done(f, &f->ask[1], 1);
    assert_int_equal(f->ask[0].code, ERR_TIMEOUT);
    assert_int_equal(f->ask[1].code, ERR_TIMEOUT);
    assert_holds(f->ask[1].err.text, "no byte moved");
}

static void a_poll_also_waits_for_descriptors_of_the_owner(void **state)
{
    struct fixture *f = *state;
    int quiet = eventfd(0, EFD_CLOEXEC);
    int loud = eventfd(1, EFD_CLOEXEC);
    struct pollfd extra[] = {{.fd = quiet, .events = POLLIN}, {.fd = loud, .events = POLLIN}};
    assert_true(start(f, &f->ask[0], "/park", 0, 0) >= 0);
    assert_ok(http_multi_poll(f->multi, extra, 2, 20000, &f->err), &f->err);
    assert_int_equal(extra[0].revents, 0);
    assert_int_equal(extra[1].revents, POLLIN);
    assert_int_equal(f->ask[0].done, 0);

    /* Without any call too. */
    assert_ok(http_multi_poll(f->multi, extra + 1, 1, 20000, &f->err), &f->err);
    assert_int_equal(extra[1].revents, POLLIN);
    assert_ok(http_multi_poll(f->multi, extra, 1, 0, &f->err), &f->err);
    assert_int_equal(extra[0].revents, 0);
    close(quiet);
    close(loud);
}

static void there_is_a_bound_on_calls(void **state)
{
    struct fixture *f = *state;
    struct serve_url url = serve_url(&f->serve, "/park");
    struct http_call call = {.method = "GET", .url = url.text};
    for (int i = 0; i < HTTP_MULTI_CALLS_MAX; i++) {
        assert_true(http_multi_start(f->multi, &call, on_done, &f->ask[0], &f->err) >= 0);
    }
    assert_int_equal(http_multi_start(f->multi, &call, on_done, &f->ask[0], &f->err), ERR_LIMIT);
    assert_holds(f->err.text, "more than 32 calls at once");
}

static void a_refused_connection_is_reported_to_done(void **state)
{
    struct fixture *f = *state;
    struct http_call call = {.method = "GET", .url = "http://127.0.0.1:1/x"};
    assert_true(http_multi_start(f->multi, &call, on_done, &f->ask[0], &f->err) >= 0);
    poll_until_done(f, &f->ask[0], 1);
    assert_int_equal(f->ask[0].code, ERR_NETWORK);
    assert_holds(f->ask[0].err.text, "GET http://127.0.0.1:1/x: ");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(several_calls_go_on_at_once),
        TEST(a_call_can_be_started_from_the_end_of_another),
        TEST(a_cancelled_call_ends_once_with_the_next_poll),
        TEST(deadlines_end_calls),
        TEST(a_poll_also_waits_for_descriptors_of_the_owner),
        TEST(there_is_a_bound_on_calls),
        TEST(a_refused_connection_is_reported_to_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
