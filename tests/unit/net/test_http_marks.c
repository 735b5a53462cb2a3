#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/http_client.h"
#include "tests/support/test.h"
#include "tests/unit/net/serve.h"

/* What a guard sees of a request, and requests that end together by their mark. */
struct fixture {
    struct gate parked; /* item: the exchange */
    struct gate ended;  /* http_on_end */
    int role;           /* of the last request that the guard saw */
    struct serve serve;
};

static uint64_t stated_mark(const struct http_exchange *exchange)
{
    const char *mark = http_query(exchange, "mark");
    return mark ? strtoull(mark, NULL, 10) : 0;
}

static void guard(void *context, struct http_exchange *exchange)
{
    struct fixture *f = context;
    ASSERT(http_mark(exchange) == 0);
    f->role = http_role(exchange);
    http_set_mark(exchange, stated_mark(exchange));
}

static void on_end(void *arg)
{
    struct fixture *f = arg;
    gate_pass(&f->ended, NULL);
}

static void park(void *context, struct http_exchange *exchange)
{
    struct fixture *f = context;
    http_on_end(exchange, on_end, f);
    gate_pass(&f->parked, exchange);
}

static void break_off(void *context, struct http_exchange *exchange)
{
    struct fixture *f = context;
    http_break_off_marked(f->serve.server, stated_mark(exchange), 0xff, exchange);
    http_reply(exchange, 204, NULL, NULL, 0);
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/park", .handle = park, .role = 3},
    {.method = "GET", .pattern = "/break_off", .handle = break_off, .role = 5},
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    gate_init(&f->parked);
    gate_init(&f->ended);
    struct http_server_config config = serve_config(routes, sizeof(routes) / sizeof(routes[0]), f);
    config.guard = guard;
    serve_start(&f->serve, &config);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    serve_stop(&f->serve);
    gate_done(&f->parked);
    gate_done(&f->ended);
    free(f);
    return 0;
}

/* Send a request on a connection of its own, which ends with the reply. */
static int begin(struct fixture *f, const char *target)
{
    int fd = raw_connect(&f->serve);
    raw_send(fd, "GET ");
    raw_send(fd, target);
    raw_send(fd, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    return fd;
}

static void expect(int fd, const char *part)
{
    char reply[2048];
    raw_read_all(fd, reply, sizeof(reply));
    assert_holds(reply, part);
    close(fd);
}

static void requests_of_one_mark_are_broken_off_and_no_others(void **state)
{
    struct fixture *f = *state;
    char reply[512];
    int doomed = begin(f, "/park?mark=263"); /* 7 in the bits of the mask */
    gate_wait(&f->parked, 1);
    int kept = begin(f, "/park?mark=8");
    struct http_exchange *exchange = gate_wait(&f->parked, 2);
    expect(begin(f, "/break_off?mark=7"), "204"); /* its own request goes on */
    gate_wait(&f->ended, 1);
    raw_read_all(doomed, reply, sizeof(reply));
    assert_string_equal(reply, "");
    close(doomed);
    http_reply(exchange, 204, NULL, NULL, 0);
    expect(kept, "204");
    assert_int_equal(gate_count(&f->ended), 1);
}

static void a_guard_sees_the_role_of_the_route(void **state)
{
    struct fixture *f = *state;
    expect(begin(f, "/break_off?mark=1"), "204");
    assert_int_equal(f->role, 5);
    expect(begin(f, "/nothing"), "not_found");
    assert_int_equal(f->role, 0);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(requests_of_one_mark_are_broken_off_and_no_others),
        TEST(a_guard_sees_the_role_of_the_route),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
