/* http_client.h: makes outgoing HTTP calls, in two ways. http_client makes one call at a time and
 * waits for it (a sender thread, the cli). http_multi runs several calls inside its owner's loop
 * (an agent's control side). Keep-alive, no Expect, no signals. Only this room includes libcurl. A
 * client or multi belongs to one thread. It follows no redirects and ignores proxies of the
 * environment. */
#ifndef NET_HTTP_CLIENT_H
#define NET_HTTP_CLIENT_H

#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/tls.h"

struct http_piece {
    const void *data; /* borrowed until the call ends */
    size_t size;
};

/* A relay (net/relay.h) for a call to a server that cannot be reached directly. */
struct http_relay {
    const char *address; /* HOST:PORT */
    const char *name;    /* the name under which the server is parked */
    const char *ticket;  /* allows the call */
};

#define HTTP_CALL_PIECES_MAX 2
#define HTTP_CALL_HEADERS_MAX 4

struct http_call {
    const char *method;             /* "GET" "POST" "PUT" "DELETE" */
    const char *url;                /* texts are borrowed until the call ends */
    const char *bearer;             /* NULL: no Authorization */
    const struct tls_client *tls;   /* for https; NULL: the system's authorities, no certificate */
    const struct http_relay *relay; /* NULL: a direct call */
    const char *content_type;
    const char *header[HTTP_CALL_HEADERS_MAX];    /* "Name: value"; NULL-terminated */
    struct http_piece body[HTTP_CALL_PIECES_MAX]; /* sent in order, not copied by us */
    /* Used instead of pieces: reads a body of body_size bytes piece by piece. Returns the bytes
     * read, 0 at the end, -1 after a failure. */
    ssize_t (*read)(void *arg, void *out, size_t size);
    void *read_arg;
    uint64_t body_size;
    /* The answer's body goes to `write`, for 2xx answers only, or else to `reply`. write returns 0
     * or a negative ERR_ code that ends the call. A body beyond the limit of reply is ERR_LIMIT. */
    struct buf *reply; /* cleared at the start */
    int (*write)(void *arg, const void *data, size_t size);
    void *write_arg;
    int64_t connect_timeout_ms; /* 0: 5 s */
    int64_t timeout_ms;         /* for the whole call; 0: none */
    int64_t stall_ms; /* ERR_TIMEOUT after this time without a byte in either direction; 0: none */
    const atomic_bool *cancel; /* checked at least every 100 ms; ERR_CANCELLED. May be NULL */
};

struct http_result {
    int status;              /* the call succeeds with any status */
    int64_t retry_after_ms;  /* 0: not stated */
    uint64_t content_length; /* as announced; UINT64_MAX: not announced */
    char content_type[64];
    double seconds; /* from start to last byte */
};

struct http_client;
NODISCARD int http_client_new(struct http_client **out, struct err *err);
void http_client_free(struct http_client **client);
/* Make the call and wait. ERR_NETWORK (refused, reset, unresolved), ERR_TIMEOUT, ERR_CANCELLED,
 * ERR_LIMIT, or the error of `write`. err names method and URL. */
NODISCARD int http_client_call(struct http_client *client, const struct http_call *call,
                               struct http_result *out, struct err *err);

/* Why the last call of the client returned ERR_NETWORK. */
enum http_breakage {
    HTTP_REFUSED,   /* no program listens there */
    HTTP_UNREACHED, /* no connection for another reason: no route, unresolved, refused by a relay */
    HTTP_BROKEN,    /* the connection broke, or TLS failed */
};
enum http_breakage http_client_breakage(const struct http_client *client);
/* The kind of connection that the client's last, failed call had to the server. Through a relay, a
 * connection counts once the relay has joined it. */
enum http_contact { HTTP_NO_CONTACT, HTTP_NEW_CONTACT, HTTP_KEPT_CONTACT };
enum http_contact http_client_contact(const struct http_client *client);

struct http_multi;
#define HTTP_MULTI_CALLS_MAX 32 /* at once */
typedef void (*http_done_fn)(void *arg, int code /* 0 or ERR_ */, const struct http_result *result,
                             const struct err *err);
NODISCARD int http_multi_new(struct http_multi **out, struct err *err);
void http_multi_free(struct http_multi **multi); /* running calls are dropped without done */
/* Start a call. The struct is copied, but not the objects that it points to. Returns a handle for
 * http_multi_cancel, >= 0, or a negative ERR_ code. done runs inside http_multi_poll. */
NODISCARD int http_multi_start(struct http_multi *multi, const struct http_call *call,
                               http_done_fn done, void *arg, struct err *err);
/* End a call; done is called with ERR_CANCELLED from the next http_multi_poll. */
void http_multi_cancel(struct http_multi *multi, int handle);
/* Wait for the sockets of the calls and for extra[0..extra_count) (revents are filled in), at most
 * timeout_ms, and advance all calls. */
NODISCARD int http_multi_poll(struct http_multi *multi, struct pollfd *extra, size_t extra_count,
                              int timeout_ms, struct err *err);

#endif
