#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/unit/net/stream_desk.h"

static void assert_body(const struct buf *reply, uint64_t size)
{
    assert_int_equal(reply->size, size);
    for (size_t i = 0; i < reply->size; i++) {
        if ((unsigned char)reply->data[i] != stream_byte(i)) {
            assert_int_equal(i, -1);
        }
    }
}

static void a_source_is_sent_whole(void **state)
{
    struct stream *f = *state;
    struct err err = {0};
    assert_int_equal(stream_call(f, "GET", "/stream/known", NULL, 0, &err), 200);
    assert_body(&f->reply, 1000003);
    assert_int_equal(f->result.content_length, 1000003);
    assert_int_equal(stream_call(f, "GET", "/stream/chunked", NULL, 0, &err), 200);
    assert_body(&f->reply, 1000003);
    assert_true(f->result.content_length == UINT64_MAX);
    assert_int_equal(stream_call(f, "GET", "/stream/known-empty", NULL, 0, &err), 200);
    assert_int_equal(f->reply.size, 0);
    assert_int_equal(stream_call(f, "GET", "/stream/empty", NULL, 0, &err), 200);
    assert_int_equal(f->reply.size, 0);
    assert_int_equal(stream_call(f, "HEAD", "/stream/known", NULL, 0, &err), 200);
    assert_int_equal(f->result.content_length, 1000003);
    gate_wait(&f->desk.done, 5);
}

static void a_source_that_pauses_continues_when_it_is_woken(void **state)
{
    struct stream *f = *state;
    stream_wake(f);
    struct err err = {0};
    static const char *const paths[] = {"/stream/known-pause", "/stream/pause"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stream_call(f, "GET", paths[i], NULL, 0, &err), 200);
        assert_body(&f->reply, 1000003);
        gate_wait(&f->desk.done, i + 1);
        assert_int_equal(gate_count(&f->desk.paused), 100 * (i + 1));
    }
}

static void a_source_that_fails_ends_in_a_truncated_body(void **state)
{
    struct stream *f = *state;
    struct err err = {0};
    assert_int_equal(stream_call(f, "GET", "/stream/known-fail", NULL, 0, &err), ERR_NETWORK);
    assert_int_equal(stream_call(f, "GET", "/stream/fail", NULL, 0, &err), ERR_NETWORK);
    assert_holds(err.text, f->serve.url);
    gate_wait(&f->desk.done, 2);
}

static void a_download_whose_client_vanishes_is_done_once(void **state)
{
    struct stream *f = *state;
    int fd = raw_connect(&f->serve);
    raw_send(fd, "GET /stream/wait HTTP/1.1\r\nHost: x\r\n\r\n");
    struct http_exchange *exchange = gate_wait(&f->desk.paused, 1);
    struct linger reset = {.l_onoff = 1};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    close(fd);
    /* The next bytes find the connection closed. */
    f->desk.download.waits = false;
    http_exchange_ready(exchange);
    gate_wait(&f->desk.done, 1);
    gate_wait(&f->desk.exchange_over, 1);
    assert_int_equal(gate_count(&f->desk.done), 1);
}

static void closing_ends_downloads_once(void **state)
{
    struct stream *f = *state;
    int fd = raw_connect(&f->serve);
    raw_send(fd, "GET /stream/wait HTTP/1.1\r\nHost: x\r\n\r\n");
    gate_wait(&f->desk.paused, 1);
    serve_stop(&f->serve);
    assert_int_equal(gate_count(&f->desk.done), 1);
    assert_int_equal(gate_count(&f->desk.exchange_over), 1);
    close(fd);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, stream_setup, stream_teardown)
#define OVER_TLS(function)                                                                         \
    cmocka_unit_test_setup_teardown(function, stream_setup_tls, stream_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_source_is_sent_whole),
        TEST(a_source_that_pauses_continues_when_it_is_woken),
        TEST(a_source_that_fails_ends_in_a_truncated_body),
        TEST(a_download_whose_client_vanishes_is_done_once),
        TEST(closing_ends_downloads_once),
        OVER_TLS(a_source_is_sent_whole),
        OVER_TLS(a_source_that_pauses_continues_when_it_is_woken),
        OVER_TLS(a_source_that_fails_ends_in_a_truncated_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
