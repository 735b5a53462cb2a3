#include "tests/unit/net/stream_desk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

uint64_t stream_hash(uint64_t hash, const void *data, size_t size)
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
    struct stream_desk *desk = context;
    const char *mode = http_param(exchange, "mode");
    if (strcmp(mode, "refuse") == 0) {
        reply_text(exchange, 422, "refused");
        return false;
    }
    desk->upload = (struct upload){.desk = desk, .exchange = exchange, .hash = STREAM_HASH_START};
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
    upload->hash = stream_hash(upload->hash, data, count);
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

unsigned char stream_byte(uint64_t offset)
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
        ((unsigned char *)out)[i] = stream_byte(offset + i);
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
    struct stream_desk *desk = context;
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
    struct stream_desk *desk = context;
    gate_pass(&desk->exchange_over, NULL);
}

const struct http_route stream_routes[STREAM_ROUTES] = {
    {.method = "PUT", .pattern = "/sink/{mode}", .sink = &sink},
    {.method = "POST", .pattern = "/sink/{mode}", .sink = &sink},
    {.method = "GET", .pattern = "/stream/{mode}", .handle = stream},
};

/* ---- fixture ---- */

static void each_gate(struct stream_desk *desk, void (*visit)(struct gate *gate))
{
    struct gate *gates[] = {&desk->opened, &desk->finished, &desk->aborted,
                            &desk->paused, &desk->done,     &desk->exchange_over};
    for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++) {
        visit(gates[i]);
    }
}

static int open_stream(void **state, bool tls)
{
    struct stream *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    each_gate(&f->desk, gate_init);
    struct http_server_config config = serve_config(stream_routes, STREAM_ROUTES, &f->desk);
    config.finished = over;
    if (tls) {
        tls_kit_make(&f->kit);
        config.tls = f->kit.server;
        f->tls = &f->kit.client;
    }
    serve_start(&f->serve, &config);
    struct err err = {0};
    assert_ok(http_client_new(&f->client, &err), &err);
    buf_init(&f->reply, 4 << 20);
    *state = f;
    return 0;
}

int stream_setup(void **state)
{
    return open_stream(state, false);
}

int stream_setup_tls(void **state)
{
    return open_stream(state, true);
}

/* Wake whatever pauses, as fast as it pauses: before or after the connection is suspended, as it
 * happens. */
static void *wake_all(void *arg)
{
    struct stream *f = arg;
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

void stream_wake(struct stream *f)
{
    assert_int_equal(pthread_create(&f->desk.waker, NULL, wake_all, f), 0);
    f->has_waker = true;
}

static void stop_waker(struct stream *f)
{
    atomic_store(&f->desk.stop, true);
    gate_pass(&f->desk.paused, NULL);
    pthread_join(f->desk.waker, NULL);
    f->has_waker = false;
}

int stream_teardown(void **state)
{
    struct stream *f = *state;
    if (f->has_waker) {
        stop_waker(f);
    }
    http_client_free(&f->client);
    if (f->serve.server) {
        serve_stop(&f->serve);
    }
    buf_done(&f->reply);
    each_gate(&f->desk, gate_done);
    if (f->tls) {
        tls_kit_done(&f->kit);
    }
    free(f);
    return 0;
}

int stream_call(struct stream *f, const char *method, const char *path, const void *body,
                size_t size, struct err *err)
{
    struct serve_url url = serve_url(&f->serve, path);
    struct http_call description = {.method = method,
                                    .url = url.text,
                                    .tls = f->tls,
                                    .body = {{body, size}},
                                    .reply = &f->reply,
                                    .timeout_ms = 60000};
    int rc = http_client_call(f->client, &description, &f->result, err);
    return rc ? rc : f->result.status;
}

unsigned char *stream_body(size_t size)
{
    unsigned char *body = malloc(size);
    assert_non_null(body);
    for (size_t i = 0; i < size; i++) {
        body[i] = stream_byte(i);
    }
    return body;
}
