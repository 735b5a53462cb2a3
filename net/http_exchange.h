/* http_exchange.h: the structs that the modules of the server share (http_server, http_request,
 * http_framing, http_reply, http_refuse, http_watch, http_tls): the pool of exchanges (one per
 * connection, reused by each request) and the rules of waiting. For these modules only.
 *
 * Waiting: libmicrohttpd suspends a connection on the server's thread; other threads resume it.
 * `mutex` guards the fields that both sides use, so that a wake-up before the suspension is not
 * lost. A thread that holds it calls no function of the owner and queues no response. */
#ifndef NET_HTTP_EXCHANGE_H
#define NET_HTTP_EXCHANGE_H

#include <microhttpd.h>
#include <pthread.h>

#include "base/assert.h"
#include "base/buf.h"
#include "net/http_head.h"
#include "net/http_route.h"
#include "net/http_server.h"
#include "net/http_tls.h"
#include "net/places.h"

#define HTTP_REPLY_HEADERS_MAX 8
#define HTTP_REPLY_HEADER_BYTES 2048
#define HTTP_LINGER_MAX 64
/* Connections accepted beyond connections_max so that their requests get an answer, and connections
 * that are still closing. */
#define HTTP_DOOR_PLACES 32
#define HTTP_CLOSING_PLACES 32
/* Collected bodies up to this size are always accepted; larger ones count in bodies_max_bytes. */
#define HTTP_BODY_FREE_BYTES ((size_t)8 << 10)
/* Replies up to this size are always sent; larger ones are charged to replies_max_bytes. */
#define HTTP_REPLY_FREE_BYTES ((size_t)16 << 10)

enum http_phase {
    PHASE_IDLE,   /* between requests */
    PHASE_BODY,   /* headers were accepted; the body is arriving */
    PHASE_REPLY,  /* the handler ran; the reply is awaited */
    PHASE_QUEUED, /* libmicrohttpd has the reply */
};

/* The progress of a connection's handshake. */
enum http_handshake {
    HANDSHAKE_NONE, /* the client has sent nothing, or does not use TLS */
    HANDSHAKE_ASKED,
    HANDSHAKE_ANSWERED,
    HANDSHAKE_DONE,
};

/* The key of the client's certificate. */
enum http_peer { PEER_UNREAD, PEER_HAS_NONE, PEER_HAS_KEY };

enum http_reply_state { REPLY_NONE, REPLY_READY, REPLY_FAILED /* out of memory */ };

struct http_exchange {
    struct http_server *server;
    struct http_exchange *next_free;
    struct http_exchange *next_ending; /* of server->first_ending */
    bool in_ending;
    struct MHD_Connection *connection;
    int socket_fd;    /* the connection's */
    bool gone;        /* broken off: libmicrohttpd is about to close it */
    bool peer_closed; /* the client has closed its side */
    bool peer_reset;  /* both sides are closed */
    enum http_phase phase;
    gnutls_session_t session; /* of the connection; NULL: without TLS */
    enum http_handshake handshake;
    enum http_peer peer;
    uint8_t peer_key[HASH_SIZE];
    bool scans; /* the connection's first header is not complete; with TLS: its first byte */
    struct http_head head;
    double started_seconds;
    const char *method;
    const struct http_route *route;
    struct http_url url;
    char allow[HTTP_ALLOW_MAX]; /* for the last request with a wrong method */
    char request_id[17];
    uint64_t mark;        /* the owner's */
    struct buf body;      /* collected; its memory is kept for the next request while it is small */
    size_t body_charge;   /* the body's part of server->bodies_bytes */
    size_t reply_charge;  /* the queued reply's part of server->replies_bytes */
    uint64_t body_bytes;  /* received */
    uint64_t moved_bytes; /* received, or sent, when the stage was entered */
    bool has_body;        /* the client announced a body */
    bool reserved;        /* uses the reserved share of connections */
    bool endless;         /* the reply's size is unknown: an event stream */
    void *sink_state;
    bool sink_open; /* finish or abort must still be called */
    struct http_source source;
    void (*on_hangup)(void *arg); /* NULL: the connection is not watched */
    void *on_hangup_arg;

    size_t header_count, header_bytes;
    char header_text[HTTP_REPLY_HEADER_BYTES]; /* name NUL value NUL name ... */

    /* Guarded by server->mutex. */
    enum http_reply_state reply;
    struct MHD_Response *response; /* owned while REPLY_READY, except server->empty */
    struct buf refusal; /* the reply in its wire form, sent in the middle of an upload; empty: the
                           reply waits for the end of the upload */
    int status;
    size_t reply_bytes; /* memory that the response holds */
    bool suspended;
    bool rested;       /* it was suspended since its progress was last checked */
    bool wake_pending; /* a wake-up arrived while not suspended */
    uint64_t woken_in; /* the run during or after which it was last resumed */
    void (*on_end)(void *arg);
    void *on_end_arg;
};

/* A connection whose upload was rejected. If it were closed at once, it would be reset, and the
 * reset could overtake the reply. So its socket stays open while the client sends, and received
 * bytes are discarded. */
struct http_linger {
    int fd; /* -1: free */
    int64_t deadline_ms;
    int64_t window_ms;    /* end of the present window */
    uint64_t window_left; /* bytes that must still arrive in it */
    uint64_t bytes_left;  /* of the upload: upper bound */
};

struct http_server {
    struct http_server_config config;
    struct address address;
    struct MHD_Daemon *daemon;
    struct http_tls *tls; /* NULL: the server speaks no TLS */
    int epoll_fd; /* watches libmicrohttpd's, wake_fd, all connections and the lingering sockets */
    int64_t now_ms;        /* time of this run */
    struct places *places; /* place i belongs to exchanges[i] */
    struct MHD_Response *empty;
    struct http_exchange *exchanges;
    size_t exchange_count;
    size_t connection_count;
    bool place_freed; /* a connection ended while the server was full */
    size_t fresh;     /* exchanges[fresh..) were never used: their memory is not touched */
    struct http_exchange *first_free;
    struct http_exchange *first_ending; /* exchanges whose clients have closed their side */
    size_t bodies_bytes;                /* of collected bodies, beyond the free share of each */
    size_t replies_bytes;               /* of large replies in progress */
    struct http_refusals refusals;
    uint64_t request_key, request_count;
    struct http_linger linger[HTTP_LINGER_MAX];
    size_t linger_count;
    pthread_mutex_t mutex;
    bool closing;  /* guarded by mutex, like the members below */
    bool woken;    /* wake_fd was written to */
    uint64_t runs; /* runs begun so far */
    int wake_fd;   /* needed because libmicrohttpd, without threads of its own, does not signal a
                      resumption on its epoll descriptor */
};

static inline void http_server_lock(struct http_server *server)
{
    ASSERT(pthread_mutex_lock(&server->mutex) == 0);
}

static inline void http_server_unlock(struct http_server *server)
{
    ASSERT(pthread_mutex_unlock(&server->mutex) == 0);
}

#endif
