/* serve.h: an HTTP server in a thread of the test, a desk where handlers and the test meet without
 * sleeping, and a raw client for requests that libcurl would not make. For the tests of net and
 * cli. */
#ifndef TESTS_UNIT_NET_SERVE_H
#define TESTS_UNIT_NET_SERVE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "net/http_server.h"

struct serve {
    struct http_server *server;
    pthread_t thread;
    int stop_fd;
    char url[80]; /* "http://127.0.0.1:PORT", https with TLS */
};

/* Sensible settings on a free loopback port; fallbacks answer text/plain with their name. */
struct http_server_config serve_config(const struct http_route *routes, size_t route_count,
                                       void *context);
void serve_start(struct serve *serve, const struct http_server_config *config);
/* Stop the thread and close the server. */
void serve_stop(struct serve *serve);

/* Reply with a text as text/plain. */
void reply_text(struct http_exchange *exchange, int status, const char *text);

/* url + path, in storage of its own. */
struct serve_url {
    char text[4096];
};
struct serve_url serve_url(const struct serve *serve, const char *path);

/* A counter that one thread raises and another waits for. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int count;
    void *item; /* the last passed value */
};
void gate_init(struct gate *gate);
void gate_done(struct gate *gate);
void gate_pass(struct gate *gate, void *item);
/* Wait until it was passed `count` times (fails the test after 20 s); returns the last item. */
void *gate_wait(struct gate *gate, int count);
int gate_count(struct gate *gate);

/* A plain TCP connection to the server. */
int raw_connect(const struct serve *serve);
void raw_send(int fd, const char *text);
/* Read until the other side closes. */
void raw_read_all(int fd, char *out, size_t size);
/* Read until `part` was seen. */
void raw_read_until(int fd, const char *part, char *out, size_t size);
/* All bytes that the server sends for one request on a connection of its own, which the server
 * closes. */
void raw_ask(const struct serve *serve, const char *request, char *out, size_t size);

#endif
