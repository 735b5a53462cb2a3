/* http_server.h: an HTTP/1.1 server driven by its owner's loop. A table of routes; bodies either
 * collected up to a bound or streamed into a sink; replies at once, later (the exchange is parked)
 * or streamed. Used by the coordinator and by an agent's peer side.
 *
 * Threads: one thread, the owner, calls http_server_run; handlers run inside it. http_reply*,
 * http_exchange_continue and http_exchange_ready may be called from any thread; a wake-up before
 * its wait is not lost. Other threads stop using an exchange, under a lock of the owner, when the
 * server reports its end (abort, http_on_end, done). Only net includes libmicrohttpd (docs/adr). */
#ifndef NET_HTTP_SERVER_H
#define NET_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "net/address.h"
#include "net/hash.h"
#include "net/tls.h"

struct http_server;
struct http_exchange; /* one request and its reply; valid until the reply has been sent or the
                         client has disconnected */

typedef void (*http_handle_fn)(void *context, struct http_exchange *exchange);

/* A streamed body. All functions run on the server's thread and must not block. */
struct http_sink {
    /* Headers are complete. Set *state and return true to continue. To refuse, reply
     * (http_reply...) and return false: the connection ends with the reply. */
    bool (*open)(void *context, struct http_exchange *exchange, void **state);
    /* Take up to `size` bytes and return how many; 0 pauses the connection until
     * http_exchange_continue. A reply made before finish (from here or from another thread) calls
     * abort. A refusal (status 400 and above) is sent at once, and the rest of the request is
     * discarded; any other reply is sent after the rest of the body. */
    size_t (*write)(void *state, const void *data, size_t size);
    /* The body is complete; reply now or later. */
    void (*finish)(void *state);
    /* The client disconnected before finish, or the server stops. After open returned true exactly
     * one of finish and abort is called; state ends there or after the reply of finish. */
    void (*abort)(void *state);
};

struct http_route {
    const char *method;    /* "GET" */
    const char *pattern;   /* "/v1/jobs/{id}/plans/{generation}"; a {part} never matches '/' */
    http_handle_fn handle; /* NULL with a sink */
    const struct http_sink *sink;
    size_t body_max;       /* bound of a collected body; `too_large` answers a larger one */
    size_t body_bytes_min; /* least of a streamed body per progress_timeout_ms; 0: 4 KiB */
    int role;              /* the required role as the owner's number: for its guard, not for net */
    void *context;         /* for its handler or sink; NULL: the server's */
};

/* Handlers of the server's own error replies, in the owner's form (problem+json). */
struct http_fallbacks {
    http_handle_fn not_found, method_not_allowed, too_large, bad_request, busy;
};

struct http_server_config {
    struct address listen;
    struct tls_server tls; /* its texts are borrowed until the server is open */
    const struct http_route *routes;
    size_t route_count;
    struct http_fallbacks fallbacks;
    /* Called first for every request, after its headers. A reply ends the request. May be NULL. */
    http_handle_fn guard;
    /* Called after every finished exchange, for logs and metrics: status (0: it ended before its
     * reply began), seconds. May be NULL. */
    void (*finished)(void *context, const struct http_exchange *exchange, int status,
                     double seconds);
    void *context; /* for all handlers */
    /* Concurrent connections. A further one replaces a connection without an open request, or is
     * answered by `busy`. */
    size_t connections_max;
    /* The share of strangers (clients without a call of http_know_client). The rest is reserved for
     * known clients and for requests for which is_reserved (may be NULL) returns true. 0: all. */
    size_t strangers_max;
    size_t strangers_per_address_max; /* strangers of one address; 0: no such bound */
    bool (*is_reserved)(void *context, const struct http_exchange *exchange);
    size_t bodies_max_bytes;   /* sum of all collected bodies in progress; beyond it `busy` answers.
                                  0: no bound */
    size_t replies_max_bytes;  /* the same for replies to strangers' GET and HEAD */
    int64_t header_timeout_ms; /* for a whole header, counted from its first byte or from the
                                  connection's start. 0: 10 s */
    int64_t progress_timeout_ms; /* within which a body or reply must progress. 0: 10 s */
    int64_t idle_timeout_ms;     /* longest pause between two requests */
    /* Memory of a connection, for its headers and a piece of a body; 0: 32 KiB. libmicrohttpd
     * zeroes all of it after every request, so more memory helps only if most bodies are large. */
    size_t connection_bytes;
};

NODISCARD int http_server_open(const struct http_server_config *config, struct http_server **out,
                               struct err *err);
/* Drop parked exchanges, abort sinks and call done of sources. From then on another thread may use
 * an exchange only if it is synchronised with these calls. */
void http_server_close(struct http_server **server);
/* Return the actual address, which differs from that of the configuration with port 0. */
const struct address *http_server_address(const struct http_server *server);
/* Use another certificate from the next connection on; open connections stay. On the server's
 * thread, for a server with TLS. After a failure the old certificate stays. */
NODISCARD int http_server_use_certificate(struct http_server *server, const struct tls_server *tls,
                                          struct err *err);
/* Poll this descriptor for reading, at most http_server_timeout_ms (-1: no limit), then call
 * http_server_run. The timeout is 0 while bytes are left that the descriptor will not report
 * again, so never wait longer. */
int http_server_fd(const struct http_server *server);
int http_server_timeout_ms(struct http_server *server);
void http_server_run(struct http_server *server);

/* Refusals since the start because of the bounds. */
struct http_refusals {
    uint64_t requests;    /* answered by `busy` */
    uint64_t connections; /* closed to make room for others, or for lack of room */
};
struct http_refusals http_server_refusals(const struct http_server *server);

/* ---- the request; texts are borrowed until the exchange ends ---- */
const char *http_method(const struct http_exchange *exchange);
/* Return the path as sent, without the query; unprintable bytes are replaced by '?'. */
const char *http_path(const struct http_exchange *exchange);
/* Return the methods of the path ("GET, HEAD, POST"). Only within `method_not_allowed`. The reply's
 * Allow header lists them too. */
const char *http_allowed(const struct http_exchange *exchange);
/* Return the reason for the call of `bad_request` as one sentence; NULL for other requests. */
const char *http_fault(const struct http_exchange *exchange);
/* Return the percent-decoded text that matched {name}. Never NULL for a name of the pattern. */
const char *http_param(const struct http_exchange *exchange, const char *name);
/* Return a query parameter or a header; NULL: absent. Header names in any case. */
const char *http_query(const struct http_exchange *exchange, const char *name);
const char *http_header(const struct http_exchange *exchange, const char *name);
/* Call visit for every query parameter, to reject unknown ones. */
void http_each_query(const struct http_exchange *exchange,
                     void (*visit)(void *arg, const char *name, const char *value), void *arg);
const char *http_body(const struct http_exchange *exchange, size_t *size);
int64_t http_content_length(const struct http_exchange *exchange); /* -1: chunked or none */
/* Return whether the connection is encrypted up to this server. */
bool http_is_tls(const struct http_exchange *exchange);
/* Read the Ed25519 key of the client's certificate; false: none. The client has proved to hold it.
 * No authority vouches for the certificate: compare the key. On the server's thread. */
bool http_peer_key(struct http_exchange *exchange, uint8_t key[HASH_SIZE]);
/* Mark the client as known: its connection counts in the reserved share. On the server's thread. */
void http_know_client(struct http_exchange *exchange);
/* Return the role of the request's route; 0: no route for the URL or for this method. */
int http_role(const struct http_exchange *exchange);
/* Set and return the owner's number of the caller to charge; 0 at the start of each request. */
void http_set_mark(struct http_exchange *exchange, uint64_t mark);
uint64_t http_mark(const struct http_exchange *exchange);
/* Close the connections of requests whose mark & mask equals `mark`. On the server's thread. */
void http_break_off_marked(struct http_server *server, uint64_t mark, uint64_t mask,
                           const struct http_exchange *except);
void http_client_address(const struct http_exchange *exchange, struct address *out);
/* Return the request id of problems and logs: 16 hexadecimal digits, unique within this run. */
const char *http_request_id(const struct http_exchange *exchange);

/* ---- the reply: exactly one per exchange ---- */
/* Add a header, before the reply. Copied; control characters become '?'. At most 8, together 2 KiB;
 * an empty value sets nothing. */
void http_reply_header(struct http_exchange *exchange, const char *name, const char *value);
/* Reply. body is copied; content_type is NULL with an empty body. */
void http_reply(struct http_exchange *exchange, int status, const char *content_type,
                const void *body, size_t size);
/* As http_reply, but the body is used in place until release(arg) is called. */
void http_reply_borrowed(struct http_exchange *exchange, int status, const char *content_type,
                         const void *body, size_t size, void (*release)(void *arg), void *arg);

#define HTTP_SIZE_UNKNOWN UINT64_MAX
struct http_source {
    /* Write up to `size` bytes of the body from `offset` on. Returns the count, 0 for "not yet"
     * (the connection is parked until http_exchange_ready), -1 for the end of a body of unknown
     * size, -2 for a failure (the connection is aborted, so the client sees a truncated body). */
    ssize_t (*read)(void *arg, uint64_t offset, void *out, size_t size);
    void (*done)(void *arg); /* always called once, also if the client has disconnected */
    void *arg;
    size_t held_bytes; /* memory held until done; charged to replies_max_bytes */
};
/* Stream a body of `size` bytes, or HTTP_SIZE_UNKNOWN (chunked: server-sent events). */
void http_reply_stream(struct http_exchange *exchange, int status, const char *content_type,
                       uint64_t size, const struct http_source *source);

/* ---- parked exchanges ---- */
/* Call fn if the exchange ends before its reply (client disconnected, server closing). Do not use
 * the exchange afterwards. A client that closes only its sending side has not disconnected. */
void http_on_end(struct http_exchange *exchange, void (*fn)(void *arg), void *arg);
/* Watch for a hangup while the reply takes long: if the client closes its side, fn is called once,
 * on the server's thread, and the exchange ends. The reply cancels the watch. On the server's
 * thread. */
void http_on_hangup(struct http_exchange *exchange, void (*fn)(void *arg), void *arg);
/* Continue a sink that returned 0 and can take more. */
void http_exchange_continue(struct http_exchange *exchange);
/* Continue a source that returned 0 and has more. */
void http_exchange_ready(struct http_exchange *exchange);

/* Parse "bytes=A-B", "bytes=A-", "bytes=-N" within `size`. Returns 0: whole (no header), 1: a part,
 * both with offset and length set; -1: not satisfiable, malformed or several ranges. */
int http_parse_range(const char *header, uint64_t size, uint64_t *offset, uint64_t *length);

#endif
