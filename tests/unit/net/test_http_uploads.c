#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/unit/net/stream_desk.h"

static void a_sink_gets_all_bytes_in_order(void **state)
{
    struct stream *f = *state;
    size_t size = (20u << 20) + 7;
    unsigned char *body = stream_body(size);
    struct err err = {0};
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(stream_call(f, "PUT", "/sink/count", body, size, &err), 201);
        gate_wait(&f->desk.exchange_over, i);
        assert_int_equal(f->desk.upload.size, size);
        assert_true(f->desk.upload.hash == stream_hash(STREAM_HASH_START, body, size));
    }
    assert_int_equal(stream_call(f, "PUT", "/sink/count", NULL, 0, &err), 201);
    assert_string_equal(f->reply.data, "0");
    assert_int_equal(gate_count(&f->desk.finished), 4);
    assert_int_equal(gate_count(&f->desk.aborted), 0);
    free(body);
}

static void a_paused_sink_continues_when_it_is_woken(void **state)
{
    struct stream *f = *state;
    stream_wake(f);
    size_t size = 3000001;
    unsigned char *body = stream_body(size);
    struct err err = {0};
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(stream_call(f, "PUT", "/sink/pause", body, size, &err), 201);
        gate_wait(&f->desk.exchange_over, i);
        assert_int_equal(f->desk.upload.size, size);
        assert_true(f->desk.upload.hash == stream_hash(STREAM_HASH_START, body, size));
        assert_int_equal(gate_count(&f->desk.paused), 200 * i);
    }
    free(body);
}

static void a_refused_upload_of_50_mb_gets_its_answer(void **state)
{
    struct stream *f = *state;
    size_t size = 50u << 20;
    unsigned char *body = stream_body(size);
    struct err err = {0};
    for (int i = 0; i < 40; i++) {
        int status = stream_call(f, i % 2 ? "PUT" : "POST", "/sink/refuse", body, size, &err);
        if (status != 422) {
            print_error("upload %d: %s\n", i, err.text);
        }
        assert_int_equal(status, 422);
        assert_string_equal(f->reply.data, "refused");
    }
    assert_int_equal(gate_count(&f->desk.aborted), 0);
    assert_int_equal(stream_call(f, "PUT", "/sink/count", body, 1000, &err), 201);
    free(body);
}

static void many_rejected_uploads_do_not_delay_other_clients(void **state)
{
    (void)state;
    enum { UPLOADS = 80 };
    struct stream_desk desk = {0};
    struct serve serve = {0};
    struct http_server_config config = serve_config(stream_routes, STREAM_ROUTES, &desk);
    struct err err = {0};
    int fds[UPLOADS];
    assert_ok(http_server_open(&config, &serve.server, &err), &err);
    for (int i = 0; i < UPLOADS; i++) {
        fds[i] = raw_connect(&serve);
        raw_send(fds[i], "PUT /sink/refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
        for (struct pollfd answer = {.fd = fds[i], .events = POLLIN}; poll(&answer, 1, 0) == 0;) {
            http_server_run(serve.server);
        }
    }
    /* Bytes of all of them wait when the next run begins; one that does not end ends the test. */
    for (int i = 0; i < UPLOADS; i++) {
        (void)send(fds[i], "more", 4, MSG_NOSIGNAL);
    }
    (void)alarm(20);
    http_server_run(serve.server);
    (void)alarm(0);
    for (int i = 0; i < UPLOADS; i++) {
        close(fds[i]);
    }
    http_server_close(&serve.server);
}

static void a_client_that_asks_first_is_refused_before_it_sends(void **state)
{
    struct stream *f = *state;
    char answer[1024];
    raw_ask(&f->serve,
            "PUT /sink/refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nExpect: "
            "100-continue\r\n\r\n",
            answer, sizeof(answer));
    assert_holds(answer, "HTTP/1.1 422 ");
    assert_null(strstr(answer, "100 Continue"));

    int fd = raw_connect(&f->serve);
    raw_send(
        fd,
        "PUT /sink/count HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    raw_read_until(fd, "HTTP/1.1 100 Continue\r\n\r\n", answer, sizeof(answer));
    raw_send(fd, "hello");
    raw_read_until(fd, "\r\n\r\n5", answer, sizeof(answer));
    assert_holds(answer, "HTTP/1.1 201 ");
    close(fd);
}

static void a_reply_in_the_middle_of_an_upload_ends_the_sink(void **state)
{
    struct stream *f = *state;
    size_t size = 5u << 20;
    unsigned char *body = stream_body(size);
    struct err err = {0};
    assert_int_equal(stream_call(f, "PUT", "/sink/reply", body, size, &err), 422);
    assert_string_equal(f->reply.data, "seen enough");
    assert_int_equal(gate_count(&f->desk.aborted), 1);
    assert_int_equal(gate_count(&f->desk.finished), 0);
    free(body);
}

static void a_reply_from_another_thread_ends_a_paused_upload(void **state)
{
    struct stream *f = *state;
    int fd = raw_connect(&f->serve);
    raw_send(fd, "PUT /sink/stuck HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello");
    struct http_exchange *exchange = gate_wait(&f->desk.paused, 1);
    reply_text(exchange, 507, "disk full");
    raw_send(fd, "world");
    char answer[1024];
    raw_read_until(fd, "disk full", answer, sizeof(answer));
    assert_holds(answer, "HTTP/1.1 507 ");
    assert_int_equal(gate_count(&f->desk.aborted), 1);
    close(fd);
}

static void an_upload_whose_client_vanishes_is_aborted_once(void **state)
{
    struct stream *f = *state;
    int fd = raw_connect(&f->serve);
    raw_send(fd, "PUT /sink/count HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhello");
    gate_wait(&f->desk.opened, 1);
    close(fd);
    gate_wait(&f->desk.aborted, 1);
    gate_wait(&f->desk.exchange_over, 1);

    /* The same in the middle of a chunk, and by a reset. */
    fd = raw_connect(&f->serve);
    raw_send(
        fd, "PUT /sink/count HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhello");
    gate_wait(&f->desk.opened, 2);
    struct linger reset = {.l_onoff = 1};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    close(fd);
    gate_wait(&f->desk.aborted, 2);
    gate_wait(&f->desk.exchange_over, 2);
    assert_int_equal(gate_count(&f->desk.aborted), 2);
    assert_int_equal(gate_count(&f->desk.finished), 0);
}

static void a_paused_upload_whose_client_vanished_is_aborted_on_wake_up(void **state)
{
    struct stream *f = *state;
    int fd = raw_connect(&f->serve);
    raw_send(fd, "PUT /sink/stuck HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nhello");
    struct http_exchange *exchange = gate_wait(&f->desk.paused, 1);
    close(fd);
    http_exchange_continue(exchange);
    gate_wait(&f->desk.aborted, 1);
    gate_wait(&f->desk.exchange_over, 1);
    assert_int_equal(gate_count(&f->desk.aborted), 1);
}

static void a_paused_upload_whose_client_only_stops_sending_is_finished(void **state)
{
    struct stream *f = *state;
    struct err err = {0};
    int fd = raw_connect(&f->serve);
    raw_send(fd, "PUT /sink/stuck HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: "
                 "close\r\n\r\nhello");
    struct http_exchange *exchange = gate_wait(&f->desk.paused, 1);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(stream_call(f, "GET", "/stream/known-empty", NULL, 0, &err), 200);
    http_exchange_continue(exchange);
    char answer[512];
    raw_read_all(fd, answer, sizeof(answer));
    assert_holds(answer, "HTTP/1.1 201 ");
    assert_int_equal(gate_count(&f->desk.aborted), 0);
    close(fd);
}

static void closing_aborts_open_uploads_once(void **state)
{
    struct stream *f = *state;
    int stuck = raw_connect(&f->serve);
    raw_send(stuck, "PUT /sink/stuck HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhello");
    gate_wait(&f->desk.paused, 1);
    int reading = raw_connect(&f->serve);
    raw_send(reading, "PUT /sink/count HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhello");
    gate_wait(&f->desk.opened, 2);
    serve_stop(&f->serve);
    assert_int_equal(gate_count(&f->desk.aborted), 2);
    assert_int_equal(gate_count(&f->desk.finished), 0);
    close(stuck);
    close(reading);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, stream_setup, stream_teardown)
#define OVER_TLS(function)                                                                         \
    cmocka_unit_test_setup_teardown(function, stream_setup_tls, stream_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sink_gets_all_bytes_in_order),
        TEST(a_paused_sink_continues_when_it_is_woken),
        TEST(a_refused_upload_of_50_mb_gets_its_answer),
        cmocka_unit_test(many_rejected_uploads_do_not_delay_other_clients),
        TEST(a_client_that_asks_first_is_refused_before_it_sends),
        TEST(a_reply_in_the_middle_of_an_upload_ends_the_sink),
        TEST(a_reply_from_another_thread_ends_a_paused_upload),
        TEST(an_upload_whose_client_vanishes_is_aborted_once),
        TEST(a_paused_upload_whose_client_vanished_is_aborted_on_wake_up),
        TEST(a_paused_upload_whose_client_only_stops_sending_is_finished),
        TEST(closing_aborts_open_uploads_once),
        OVER_TLS(a_sink_gets_all_bytes_in_order),
        OVER_TLS(a_paused_sink_continues_when_it_is_woken),
        OVER_TLS(a_refused_upload_of_50_mb_gets_its_answer),
        OVER_TLS(a_reply_in_the_middle_of_an_upload_ends_the_sink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
