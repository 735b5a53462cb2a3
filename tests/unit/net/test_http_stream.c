#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/http_client.h"
#include "tests/support/test.h"
#include "tests/unit/net/serve.h"

/* One upload or download; the desk has one of each at a time. */
struct upload {
    struct desk *desk;
    struct http_exchange *exchange;
    uint64_t size;
    uint64_t hash;
    unsigned pauses_left;
    bool paused;
    bool replies_in_write;
};

struct download {
    struct desk *desk;
    struct http_exchange *exchange;
    uint64_t size; /* the body ends after this many bytes */
    unsigned pauses_left;
    bool fails;
    bool waits; /* for ever, after the first bytes */
};

struct desk {
    struct upload upload;
    struct download download;
    struct gate opened, finished, aborted, paused, done, exchange_over;
    /* A worker that wakes paused exchanges from a thread of its own. */
    pthread_t waker;
    atomic_bool stop;
};

#define FNV_START UINT64_C(0xcbf29ce484222325)

static uint64_t hash_on(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* ---- sinks ---- */

static bool open_upload(void *context, struct http_exchange *exchange, void **state)
{
    struct desk *desk = context;
    const char *mode = http_param(exchange, "mode");
    if (strcmp(mode, "refuse") == 0) {
        reply_text(exchange, 422, "refused");
        return false;
    }
    desk->upload = (struct upload){.desk = desk, .exchange = exchange, .hash = FNV_START};
    desk->upload.pauses_left = strcmp(mode, "pause") == 0   ? 200
                               : strcmp(mode, "stuck") == 0 ? 1u << 30
                                                            : 0;
    desk->upload.replies_in_write = strcmp(mode, "reply") == 0;
    *state = &desk->upload;
    gate_pass(&desk->opened, exchange);
    return true;
}

/* Every second write pauses while pauses are left; the others take an odd number of bytes. */
static size_t write_upload(void *state, const void *data, size_t size)
{
    struct upload *upload = state;
    if (upload->replies_in_write) {
        reply_text(upload->exchange, 422, "seen enough");
        return size;
    }
    if (upload->pauses_left > 0 && !upload->paused) {
        upload->pauses_left--;
        upload->paused = true;
        gate_pass(&upload->desk->paused, upload->exchange);
        return 0;
    }
    upload->paused = false;
    size_t count = upload->pauses_left > 0 && size > 1001 ? 1001 : size;
    upload->size += count;
    upload->hash = hash_on(upload->hash, data, count);
    return count;
}

static void finish_upload(void *state)
{
    struct upload *upload = state;
    char text[64];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)upload->size);
    struct http_exchange *exchange = upload->exchange;
    gate_pass(&upload->desk->finished, NULL);
    reply_text(exchange, 201, text);
}

static void abort_upload(void *state)
{
    struct upload *upload = state;
    gate_pass(&upload->desk->aborted, NULL);
}

static const struct http_sink sink = {open_upload, write_upload, finish_upload, abort_upload};

/* ---- sources ---- */

static unsigned char byte_at(uint64_t offset)
{
    return (unsigned char)(offset * 31 + (offset >> 8));
}

static ssize_t read_download(void *arg, uint64_t offset, void *out, size_t size)
{
    struct download *download = arg;
    if (offset >= download->size) {
        return download->fails ? -2 : -1;
    }
    if (download->pauses_left > 0 || (download->waits && offset > 0)) {
        /* Every other read has nothing yet. */
        if (download->waits || download->pauses_left % 2 == 0) {
            download->pauses_left -= download->pauses_left > 0;
            gate_pass(&download->desk->paused, download->exchange);
            return 0;
        }
        download->pauses_left--;
        size = size < 1001 ? size : 1001;
    }
    size_t count = download->size - offset < size ? (size_t)(download->size - offset) : size;
    for (size_t i = 0; i < count; i++) {
        ((unsigned char *)out)[i] = byte_at(offset + i);
    }
    return (ssize_t)count;
}

static void end_download(void *arg)
{
    struct download *download = arg;
    gate_pass(&download->desk->done, NULL);
}

static void stream(void *context, struct http_exchange *exchange)
{
    struct desk *desk = context;
    const char *mode = http_param(exchange, "mode");
    bool pauses = strstr(mode, "pause") != NULL;
    bool known = strstr(mode, "known") != NULL;
    desk->download = (struct download){.desk = desk,
                                       .exchange = exchange,
                                       .size = 1000003,
                                       .pauses_left = pauses ? 200 : 0,
                                       .fails = strstr(mode, "fail") != NULL,
                                       .waits = strstr(mode, "wait") != NULL};
    if (strstr(mode, "empty")) {
        desk->download.size = 0;
    }
    uint64_t announced =
        known ? desk->download.size + (desk->download.fails ? 100 : 0) : HTTP_SIZE_UNKNOWN;
    struct http_source source = {
        .read = read_download, .done = end_download, .arg = &desk->download};
    http_reply_stream(exchange, 200, "application/octet-stream", announced, &source);
}

static void over(void *context, const struct http_exchange *exchange, int status, double seconds)
{
    (void)exchange;
    (void)status;
    (void)seconds;
    struct desk *desk = context;
    gate_pass(&desk->exchange_over, NULL);
}

static const struct http_route routes[] = {
    {.method = "PUT", .pattern = "/sink/{mode}", .sink = &sink},
    {.method = "POST", .pattern = "/sink/{mode}", .sink = &sink},
    {.method = "GET", .pattern = "/stream/{mode}", .handle = stream},
};

/* ---- fixture ---- */

struct fixture {
    struct desk desk;
    struct serve serve;
    struct http_client *client;
    struct buf reply;
    struct http_result result;
    bool has_waker;
};

static void each_gate(struct desk *desk, void (*visit)(struct gate *gate))
{
    struct gate *gates[] = {&desk->opened, &desk->finished, &desk->aborted,
                            &desk->paused, &desk->done,     &desk->exchange_over};
    for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++) {
        visit(gates[i]);
    }
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    each_gate(&f->desk, gate_init);
    struct http_server_config config =
        serve_config(routes, sizeof(routes) / sizeof(routes[0]), &f->desk);
    config.finished = over;
    serve_start(&f->serve, &config);
    struct err err = {0};
    assert_ok(http_client_new(&f->client, &err), &err);
    buf_init(&f->reply, 4 << 20);
    *state = f;
    return 0;
}

/* Wake whatever pauses, as fast as it pauses: before or after the connection is suspended, as it
 * happens. */
static void *wake_all(void *arg)
{
    struct fixture *f = arg;
    for (int woken = 0;;) {
        pthread_mutex_lock(&f->desk.paused.mutex);
        while (f->desk.paused.count == woken && !atomic_load(&f->desk.stop)) {
            pthread_cond_wait(&f->desk.paused.changed, &f->desk.paused.mutex);
        }
        woken = f->desk.paused.count;
        struct http_exchange *exchange = f->desk.paused.item;
        pthread_mutex_unlock(&f->desk.paused.mutex);
        if (atomic_load(&f->desk.stop)) {
            return NULL;
        }
        http_exchange_continue(exchange);
    }
}

static void start_waker(struct fixture *f)
{
    assert_int_equal(pthread_create(&f->desk.waker, NULL, wake_all, f), 0);
    f->has_waker = true;
}

static void stop_waker(struct fixture *f)
{
    atomic_store(&f->desk.stop, true);
    gate_pass(&f->desk.paused, NULL);
    pthread_join(f->desk.waker, NULL);
    f->has_waker = false;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    if (f->has_waker) {
        stop_waker(f);
    }
    http_client_free(&f->client);
    if (f->serve.server) {
        serve_stop(&f->serve);
    }
    buf_done(&f->reply);
    each_gate(&f->desk, gate_done);
    free(f);
    return 0;
}

static int call(struct fixture *f, const char *method, const char *path, const void *body,
                size_t size, struct err *err)
{
    struct serve_url url = serve_url(&f->serve, path);
    struct http_call description = {.method = method,
                                    .url = url.text,
                                    .body = {{body, size}},
                                    .reply = &f->reply,
                                    .timeout_ms = 60000};
    int rc = http_client_call(f->client, &description, &f->result, err);
    return rc ? rc : f->result.status;
}

static unsigned char *make_body(size_t size)
{
    unsigned char *body = malloc(size);
    assert_non_null(body);
    for (size_t i = 0; i < size; i++) {
        body[i] = byte_at(i);
    }
    return body;
}

static void assert_body(const struct buf *reply, uint64_t size)
{
    assert_int_equal(reply->size, size);
    for (size_t i = 0; i < reply->size; i++) {
        if ((unsigned char)reply->data[i] != byte_at(i)) {
            assert_int_equal(i, -1);
        }
    }
}

/* ---- uploads ---- */

static void a_sink_gets_all_bytes_in_order(void **state)
{
    struct fixture *f = *state;
    size_t size = (20u << 20) + 7;
    unsigned char *body = make_body(size);
    struct err err = {0};
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(call(f, "PUT", "/sink/count", body, size, &err), 201);
        gate_wait(&f->desk.exchange_over, i);
        assert_int_equal(f->desk.upload.size, size);
        assert_true(f->desk.upload.hash == hash_on(FNV_START, body, size));
    }
    assert_int_equal(call(f, "PUT", "/sink/count", NULL, 0, &err), 201);
    assert_string_equal(f->reply.data, "0");
    assert_int_equal(gate_count(&f->desk.finished), 4);
    assert_int_equal(gate_count(&f->desk.aborted), 0);
    free(body);
}

static void a_paused_sink_continues_when_it_is_woken(void **state)
{
    struct fixture *f = *state;
    start_waker(f);
    size_t size = 3000001;
    unsigned char *body = make_body(size);
    struct err err = {0};
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(call(f, "PUT", "/sink/pause", body, size, &err), 201);
        gate_wait(&f->desk.exchange_over, i);
        assert_int_equal(f->desk.upload.size, size);
        assert_true(f->desk.upload.hash == hash_on(FNV_START, body, size));
        assert_int_equal(gate_count(&f->desk.paused), 200 * i);
    }
    free(body);
}

static void a_refused_upload_of_50_mb_gets_its_answer(void **state)
{
    struct fixture *f = *state;
    size_t size = 50u << 20;
    unsigned char *body = make_body(size);
    struct err err = {0};
    for (int i = 0; i < 40; i++) {
        int status = call(f, i % 2 ? "PUT" : "POST", "/sink/refuse", body, size, &err);
        if (status != 422) {
            print_error("upload %d: %s\n", i, err.text);
        }
        assert_int_equal(status, 422);
        assert_string_equal(f->reply.data, "refused");
    }
    assert_int_equal(gate_count(&f->desk.aborted), 0);
    assert_int_equal(call(f, "PUT", "/sink/count", body, 1000, &err), 201);
    free(body);
}

static void many_rejected_uploads_do_not_delay_other_clients(void **state)
{
    (void)state;
    enum { UPLOADS = 80 };
    struct desk desk = {0};
    struct serve serve = {0};
    struct http_server_config config =
        serve_config(routes, sizeof(routes) / sizeof(routes[0]), &desk);
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
    struct fixture *f = *state;
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
    struct fixture *f = *state;
    size_t size = 5u << 20;
    unsigned char *body = make_body(size);
    struct err err = {0};
    assert_int_equal(call(f, "PUT", "/sink/reply", body, size, &err), 422);
    assert_string_equal(f->reply.data, "seen enough");
    assert_int_equal(gate_count(&f->desk.aborted), 1);
    assert_int_equal(gate_count(&f->desk.finished), 0);
    free(body);
}

static void a_reply_from_another_thread_ends_a_paused_upload(void **state)
{
    struct fixture *f = *state;
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
    struct fixture *f = *state;
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
    struct fixture *f = *state;
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
    struct fixture *f = *state;
    struct err err = {0};
    int fd = raw_connect(&f->serve);
    raw_send(fd, "PUT /sink/stuck HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: "
                 "close\r\n\r\nhello");
    struct http_exchange *exchange = gate_wait(&f->desk.paused, 1);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(call(f, "GET", "/stream/known-empty", NULL, 0, &err), 200);
    http_exchange_continue(exchange);
    char answer[512];
    raw_read_all(fd, answer, sizeof(answer));
    assert_holds(answer, "HTTP/1.1 201 ");
    assert_int_equal(gate_count(&f->desk.aborted), 0);
    close(fd);
}

static void closing_aborts_open_uploads_once(void **state)
{
    struct fixture *f = *state;
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

/* ---- downloads ---- */

static void a_source_is_sent_whole(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    assert_int_equal(call(f, "GET", "/stream/known", NULL, 0, &err), 200);
    assert_body(&f->reply, 1000003);
    assert_int_equal(f->result.content_length, 1000003);
    assert_int_equal(call(f, "GET", "/stream/chunked", NULL, 0, &err), 200);
    assert_body(&f->reply, 1000003);
    assert_true(f->result.content_length == UINT64_MAX);
    assert_int_equal(call(f, "GET", "/stream/known-empty", NULL, 0, &err), 200);
    assert_int_equal(f->reply.size, 0);
    assert_int_equal(call(f, "GET", "/stream/empty", NULL, 0, &err), 200);
    assert_int_equal(f->reply.size, 0);
    assert_int_equal(call(f, "HEAD", "/stream/known", NULL, 0, &err), 200);
    assert_int_equal(f->result.content_length, 1000003);
    gate_wait(&f->desk.done, 5);
}

static void a_source_that_pauses_continues_when_it_is_woken(void **state)
{
    struct fixture *f = *state;
    start_waker(f);
    struct err err = {0};
    static const char *const paths[] = {"/stream/known-pause", "/stream/pause"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(call(f, "GET", paths[i], NULL, 0, &err), 200);
        assert_body(&f->reply, 1000003);
        gate_wait(&f->desk.done, i + 1);
        assert_int_equal(gate_count(&f->desk.paused), 100 * (i + 1));
    }
}

static void a_source_that_fails_ends_in_a_truncated_body(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    assert_int_equal(call(f, "GET", "/stream/known-fail", NULL, 0, &err), ERR_NETWORK);
    assert_int_equal(call(f, "GET", "/stream/fail", NULL, 0, &err), ERR_NETWORK);
    assert_holds(err.text, "GET http://127.0.0.1:");
    gate_wait(&f->desk.done, 2);
}

static void a_download_whose_client_vanishes_is_done_once(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(&f->serve);
    raw_send(fd, "GET /stream/wait HTTP/1.1\r\nHost: x\r\n\r\n");
    struct http_exchange *exchange = gate_wait(&f->desk.paused, 1);
    struct linger reset = {.l_onoff = 1};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    close(fd);
    /* The next bytes meet a connection that is no more. */
    f->desk.download.waits = false;
    http_exchange_ready(exchange);
    gate_wait(&f->desk.done, 1);
    gate_wait(&f->desk.exchange_over, 1);
    assert_int_equal(gate_count(&f->desk.done), 1);
}

static void closing_ends_downloads_once(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(&f->serve);
    raw_send(fd, "GET /stream/wait HTTP/1.1\r\nHost: x\r\n\r\n");
    gate_wait(&f->desk.paused, 1);
    serve_stop(&f->serve);
    assert_int_equal(gate_count(&f->desk.done), 1);
    assert_int_equal(gate_count(&f->desk.exchange_over), 1);
    close(fd);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

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
        TEST(a_source_is_sent_whole),
        TEST(a_source_that_pauses_continues_when_it_is_woken),
        TEST(a_source_that_fails_ends_in_a_truncated_body),
        TEST(a_download_whose_client_vanishes_is_done_once),
        TEST(closing_ends_downloads_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
