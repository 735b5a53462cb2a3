/* http_exchange.h: what http_server.c, http_request.c and http_reply.c share: the server, its pool of exchanges (one a
 * connection, reused by request after request) and the rules of waiting. For these three only.
 *
 * Waiting: libmicrohttpd suspends a connection on the server's thread, other threads resume it. `mutex` guards the
 * fields that both sides use, so that a wake-up that comes before the suspension is remembered instead of lost. No
 * function of the owner is called, and no response is queued, while it is held. */
#ifndef NET_HTTP_EXCHANGE_H
#define NET_HTTP_EXCHANGE_H

#include <microhttpd.h>
#include <pthread.h>

#include "base/assert.h"
#include "base/buf.h"
#include "net/http_route.h"
#include "net/http_server.h"

#define HTTP_REPLY_HEADERS_MAX 8
#define HTTP_REPLY_HEADER_BYTES 2048
#define HTTP_LINGER_MAX 32

enum http_phase {
    PHASE_IDLE,   /* between requests */
    PHASE_BODY,   /* headers were accepted; the body is coming in */
    PHASE_REPLY,  /* the handler ran; the reply is waited for */
    PHASE_QUEUED, /* the reply is libmicrohttpd's */
};

enum http_reply_state { REPLY_NONE, REPLY_READY, REPLY_FAILED /* no memory for it */ };

struct http_exchange {
    struct http_server *server;
    struct http_exchange *next_free;
    struct http_exchange *next_receiving; /* of server->first_receiving */
    bool in_receiving;
    struct MHD_Connection *connection;
    enum http_phase phase;
    double started_seconds;
    const char *method;
    const struct http_route *route;
    struct http_url url;
    char allow[HTTP_ALLOW_MAX]; /* of the last request that had a wrong method */
    char request_id[17];
    struct buf body;        /* collected; its memory is kept for the next request while it is small */
    uint64_t drained_bytes; /* read and thrown away after an early reply */
    bool has_body;          /* the client announced one */
    bool refusing;          /* a reply made now leaves the body unread: the connection ends with it */
    bool lingers;           /* it was */
    void *sink_state;
    bool sink_open; /* finish or abort is still owed */
    struct http_source source;
    void (*on_hangup)(void *arg); /* NULL: the connection is not watched */
    void *on_hangup_arg;

    size_t header_count, header_bytes;
    char header_text[HTTP_REPLY_HEADER_BYTES]; /* name NUL value NUL name ... */

    /* Guarded by server->mutex. */
    enum http_reply_state reply;
    struct MHD_Response *response; /* owned while REPLY_READY, but for server->empty */
    int status;
    bool suspended;
    bool wake_pending; /* a wake-up came while not suspended */
    void (*on_end)(void *arg);
    void *on_end_arg;
};

/* A connection whose request was refused unread: closed at once, it would be reset, and the reset could overtake the
 * reply. So its socket is kept a little longer and what still comes in is thrown away. */
struct http_linger {
    int fd; /* -1: free */
    int64_t deadline_ms;
};

struct http_server {
    struct http_server_config config;
    struct address address;
    struct MHD_Daemon *daemon;
    int epoll_fd; /* holds libmicrohttpd's, wake_fd, the lingering sockets and those watched for a hangup */
    struct MHD_Response *empty;
    struct http_exchange *exchanges;
    size_t exchange_count;
    size_t connection_count;
    bool place_freed; /* a connection ended while there were as many as there may be */
    size_t fresh;     /* exchanges[fresh..) were never used: their memory is not touched */
    struct http_exchange *first_free;
    struct http_exchange *first_receiving; /* whose bodies came in during this run, perhaps not whole */
    uint64_t request_key, request_count;
    struct http_linger linger[HTTP_LINGER_MAX];
    size_t linger_count;
    size_t watched_count; /* connections in epoll_fd */
    pthread_mutex_t mutex;
    bool closing; /* guarded by mutex, like what follows */
    bool woken;   /* wake_fd was written to */
    int wake_fd;  /* without threads of its own, libmicrohttpd does not tell its epoll descriptor of a resumption */
};

static inline void http_server_lock(struct http_server *server)
{
    ASSERT(pthread_mutex_lock(&server->mutex) == 0);
}

static inline void http_server_unlock(struct http_server *server)
{
    ASSERT(pthread_mutex_unlock(&server->mutex) == 0);
}

/* http_server.c */
void http_linger_add(struct http_server *server, int socket_fd);

/* http_request.c: libmicrohttpd's callbacks for a request. */
void *http_request_target(void *server, const char *target, struct MHD_Connection *connection);
enum MHD_Result http_request_step(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *data_size, void **exchange);
void http_request_completed(void *server, struct MHD_Connection *connection, void **exchange,
                            enum MHD_RequestTerminationCode code);

/* libmicrohttpd takes a short read for all there is, and its epoll tells of an end only once: an end of the stream that
 * came together with the last bytes goes unseen until the connection has idled too long. So look for it after a run,
 * and let a suspension make libmicrohttpd read again. */
void http_request_look_for_ends(struct http_server *server);

/* http_reply.c */
bool http_is_replied(struct http_exchange *exchange);
/* Suspend the connection unless a wake-up came first: true when it is suspended. On the server's thread. */
bool http_wait(struct http_exchange *exchange);
/* The same, waiting for the reply. */
bool http_wait_for_reply(struct http_exchange *exchange);
/* Hand the reply to libmicrohttpd. */
enum MHD_Result http_reply_queue(struct http_exchange *exchange);
/* Tell the owners of parked requests whose clients hung up. */
void http_hangup_run(struct http_server *server);
/* Forget what belongs to the reply; a reply that was never queued is released. */
void http_reply_reset(struct http_exchange *exchange);

#endif
