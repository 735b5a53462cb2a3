/* stream_desk.h: a server with a sink and a source for bodies that travel in pieces: PUT or POST
 * /sink/MODE, GET /stream/MODE. The mode makes them pause, fail or wait; gates record the events.
 */
#ifndef TESTS_UNIT_NET_STREAM_DESK_H
#define TESTS_UNIT_NET_STREAM_DESK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "tests/unit/net/serve.h"
#include "tests/unit/net/tls_kit.h"

#define STREAM_HASH_START UINT64_C(0xcbf29ce484222325)
#define STREAM_ROUTES 3

/* One upload or download; the desk has one of each at a time. */
struct upload {
    struct stream_desk *desk;
    struct http_exchange *exchange;
    uint64_t size;
    uint64_t hash;
    unsigned pauses_left;
    bool paused;
    bool replies_in_write;
};

struct download {
    struct stream_desk *desk;
    struct http_exchange *exchange;
    uint64_t size; /* the body ends after this many bytes */
    unsigned pauses_left;
    bool fails;
    bool waits; /* without end, after the first bytes */
};

struct stream_desk {
    struct upload upload;
    struct download download;
    struct gate opened, finished, aborted, paused, done, exchange_over;
    /* A worker that wakes paused exchanges from a thread of its own. */
    pthread_t waker;
    atomic_bool stop;
};

struct stream {
    struct stream_desk desk;
    struct serve serve;
    struct http_client *client;
    struct buf reply;
    struct http_result result;
    bool has_waker;
    struct tls_kit kit;
    const struct tls_client *tls; /* of the calls; NULL: without TLS */
};

extern const struct http_route stream_routes[STREAM_ROUTES];

/* For cmocka: *state is a struct stream with its server running. */
int stream_setup(void **state);
int stream_setup_tls(void **state);
int stream_teardown(void **state);
/* Wake whatever pauses, from a thread of its own, until the teardown. */
void stream_wake(struct stream *f);
/* One request: its status, or a negative code. The reply is in f->reply. */
int stream_call(struct stream *f, const char *method, const char *path, const void *body,
                size_t size, struct err *err);

/* The byte of every body at an offset, a whole body (the caller frees it) and FNV-1a. */
unsigned char stream_byte(uint64_t offset);
unsigned char *stream_body(size_t size);
uint64_t stream_hash(uint64_t hash, const void *data, size_t size);

#endif
