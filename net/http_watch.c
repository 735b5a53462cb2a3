#include "net/http_watch.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "net/http_reply.h"
#include "net/http_request.h"

/* Events taken from the epoll set at a time. Lingering sockets are level-triggered. If they could
 * fill a batch alone, the same batch would recur without end. */
#define EVENTS_A_TIME (HTTP_LINGER_MAX + 64)
/* The least bytes that a client must send of a body, or read of a reply, in each
 * progress_timeout_ms. A collected body holds memory meanwhile, streamed bodies and replies hold
 * only their place. */
#define COLLECTED_BYTES_MIN ((uint64_t)64 << 10)
#define STREAMED_BYTES_MIN ((uint64_t)4 << 10)
/* A client that does not acknowledge data for this long has lost its connection. */
#define UNACKNOWLEDGED_MS 30000u
/* Longer than any stage. */
#define HALF_CLOSED_SECONDS 3600u

static size_t place_of(const struct http_exchange *exchange)
{
    return (size_t)(exchange - exchange->server->exchanges);
}

/* ---- the life of a connection ---- */

void http_break_off(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;
    if (exchange->gone) {
        return;
    }
    exchange->gone = true;
    places_break_off(server->places, place_of(exchange));
    /* libmicrohttpd closes a connection when it finds the socket shut down. It looks at a suspended
     * connection only after its resumption. */
    (void)shutdown(exchange->socket_fd, SHUT_RDWR);
    http_exchange_ready(exchange);
}

void http_break_off_marked(struct http_server *server, uint64_t mark, uint64_t mask,
                           const struct http_exchange *except)
{
    for (size_t i = 0; i < server->fresh; i++) {
        struct http_exchange *exchange = &server->exchanges[i];
        if (exchange->connection && exchange->phase != PHASE_IDLE && exchange != except &&
            (exchange->mark & mask) == mark) {
            http_break_off(exchange);
        }
    }
}

void http_watch_begin(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *address =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    ASSERT(fd && address);
    exchange->socket_fd = fd->connect_fd;
    exchange->gone = exchange->peer_closed = exchange->peer_reset = false;
    exchange->scans = true;
    exchange->head = (struct http_head){0};
    (void)setsockopt(exchange->socket_fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    (void)setsockopt(exchange->socket_fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
                     &(unsigned){UNACKNOWLEDGED_MS}, sizeof(unsigned));
    const size_t victim = places_enter(server->places, place_of(exchange),
                                       address_client_key(address->client_addr), server->now_ms);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = exchange};
    bool watched = epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, exchange->socket_fd, &event) == 0;
    if (victim != PLACE_NONE) {
        server->refusals.connections++;
        http_break_off(&server->exchanges[victim]);
    }
    if (!watched) { /* out of kernel memory: a socket that cannot be watched is closed */
        http_break_off(exchange);
    }
}

void http_watch_end(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;
    struct http_exchange **link = &server->first_ending;
    while (exchange->in_ending && *link != exchange) {
        link = &(*link)->next_ending;
    }
    if (exchange->in_ending) {
        *link = exchange->next_ending;
        exchange->in_ending = false;
    }
    /* A rejected upload keeps its socket under another descriptor. While that descriptor is open,
     * the epoll set would keep this one too. */
    (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, exchange->socket_fd, NULL);
    places_leave(server->places, place_of(exchange));
}

/* ---- stages ---- */

bool http_watch_admit(struct http_exchange *exchange)
{
    const struct http_server_config *config = &exchange->server->config;
    exchange->reserved = config->is_reserved && config->is_reserved(config->context, exchange);
    return places_admit(exchange->server->places, place_of(exchange), exchange->reserved);
}

bool http_watch_knows(const struct http_exchange *exchange)
{
    return places_knows(exchange->server->places, place_of(exchange));
}

void http_watch_stage(struct http_exchange *exchange, enum place_stage stage)
{
    exchange->moved_bytes = stage == STAGE_REPLY ? 0 : exchange->body_bytes;
    places_enter_stage(exchange->server->places, place_of(exchange), stage,
                       exchange->server->now_ms);
}

void http_know_client(struct http_exchange *exchange)
{
    places_know(exchange->server->places, place_of(exchange), exchange->server->now_ms);
}

/* ---- ends ---- */

/* libmicrohttpd misses an end of stream that arrived with the last bytes: it takes a short read for
 * the end of the available bytes, and its epoll reports an end of stream only once. It does not
 * watch suspended connections at all. */
void http_watch_ending(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;
    if (!exchange->in_ending) {
        exchange->in_ending = true;
        exchange->next_ending = server->first_ending;
        server->first_ending = exchange;
    }
}

/* Return 1 if bytes wait to be read, 0 at the end of the stream, -1 if no bytes wait before the
 * end. */
static int unread(const struct http_exchange *exchange)
{
    char byte;
    if (http_tls_pending(exchange)) {
        return 1;
    }
    ssize_t count = recv(exchange->socket_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count > 0 ? 1 : count < 0 && (errno == EAGAIN || errno == EINTR) ? -1 : 0;
}

static bool is_suspended(struct http_exchange *exchange)
{
    http_server_lock(exchange->server);
    const bool suspended = exchange->suspended;
    http_server_unlock(exchange->server);
    return suspended;
}

/* Return whether libmicrohttpd has delivered all bytes that it has read. It has not while the
 * connection is suspended, nor until a whole run has passed since another thread resumed it. */
static bool is_handed_on(struct http_exchange *exchange)
{
    http_server_lock(exchange->server);
    const bool handed_on = !exchange->suspended && exchange->woken_in < exchange->server->runs;
    http_server_unlock(exchange->server);
    return handed_on;
}

/* libmicrohttpd reads from a resumed connection before it delivers pending bytes or asks for the
 * reply, and it drops the connection at an end of stream. It asks first if the connection has a
 * timeout of its own: set one. */
static void ask_before_reading(struct http_exchange *exchange)
{
    (void)MHD_set_connection_option(exchange->connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                    HALF_CLOSED_SECONDS);
}

/* Return whether the client has disconnected, or closed its sending side before the end of its
 * request. A client that closes this side after its request can still read the response. In long
 * polls and event streams such a client counts as disconnected. */
static bool is_over(struct http_exchange *exchange)
{
    switch (exchange->phase) {
    case PHASE_IDLE: return unread(exchange) == 0;
    case PHASE_BODY: return is_handed_on(exchange) && unread(exchange) == 0;
    case PHASE_REPLY: return exchange->peer_reset || exchange->on_hangup;
    case PHASE_QUEUED: return exchange->peer_reset || exchange->endless;
    }
    return false;
}

void http_on_hangup(struct http_exchange *exchange, void (*fn)(void *arg), void *arg)
{
    ASSERT(!exchange->on_hangup);
    exchange->on_hangup = fn;
    exchange->on_hangup_arg = arg;
    if (exchange->peer_closed) {
        http_watch_ending(exchange);
    }
}

static void run_ends(struct http_server *server)
{
    struct http_exchange *ending = server->first_ending;
    server->first_ending = NULL;
    while (ending) {
        struct http_exchange *exchange = ending;
        ending = exchange->next_ending;
        exchange->in_ending = false;
        if (exchange->gone) {
            continue;
        }
        if (!is_over(exchange)) {
            if (exchange->phase == PHASE_IDLE || exchange->phase == PHASE_BODY) {
                http_watch_ending(exchange); /* some of its bytes are not read yet */
            }
            if (is_suspended(exchange)) {
                ask_before_reading(exchange);
            }
            continue;
        }
        if (exchange->phase == PHASE_REPLY && exchange->on_hangup && !http_is_replied(exchange)) {
            exchange->on_hangup(exchange->on_hangup_arg);
        }
        http_break_off(exchange);
    }
}

static struct tcp_info tcp_info_of(const struct http_exchange *exchange)
{
    struct tcp_info info;
    socklen_t size = sizeof(info);
    memset(&info, 0, sizeof(info));
    (void)getsockopt(exchange->socket_fd, IPPROTO_TCP, TCP_INFO, &info, &size);
    return info;
}

/* The bytes of the connection that libmicrohttpd has read, while some wait. */
static uint64_t bytes_taken(const struct http_exchange *exchange)
{
    int waiting = 0;
    (void)ioctl(exchange->socket_fd, FIONREAD, &waiting);
    /* The kernel counts the end of the stream as a received byte. */
    return tcp_info_of(exchange).tcpi_bytes_received - exchange->peer_closed - (uint64_t)waiting;
}

/* Check the connection's first header before libmicrohttpd reads it. If a later header arrived with
 * the preceding request, or libmicrohttpd read bytes right after their arrival, only libmicrohttpd
 * checks the header. */
static void scan_head(struct http_exchange *exchange)
{
    char data[HTTP_HEAD_MAX + 1];
    const ssize_t count = recv(exchange->socket_fd, data, sizeof(data), MSG_PEEK | MSG_DONTWAIT);
    if (count <= 0) {
        return;
    }
    const uint64_t taken = bytes_taken(exchange);
    if (taken > exchange->head.size || exchange->head.size - taken > (uint64_t)count) {
        exchange->scans = false;
        return;
    }
    const size_t known = (size_t)(exchange->head.size - taken);
    http_head_scan(&exchange->head, data + known, (size_t)count - known);
    exchange->scans = exchange->head.part != HEAD_OVER;
    if (exchange->head.fault) {
        http_request_reject(exchange, exchange->head.fault);
    }
}

/* Answer a client that speaks no TLS: libmicrohttpd would close its connection without a reply. The
 * headers of other clients are encrypted: they cannot be seen before libmicrohttpd reads them. */
static void scan_first_byte(struct http_exchange *exchange)
{
    if (unread(exchange) < 0) {
        return;
    }
    exchange->scans = false;
    if (bytes_taken(exchange) == 0 && http_tls_is_plain(exchange)) {
        exchange->session = NULL;
        http_request_reject(exchange, "this address speaks TLS only: use https://");
    }
}

static void take_event(struct http_server *server, struct http_exchange *exchange, uint32_t events)
{
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        exchange->peer_closed = true;
        exchange->peer_reset |= (events & (EPOLLHUP | EPOLLERR)) != 0;
        http_watch_ending(exchange);
        if (exchange->phase == PHASE_BODY || exchange->phase == PHASE_REPLY) {
            ask_before_reading(exchange); /* it may be resumed in this very run */
        }
    }
    if (exchange->scans && !exchange->gone && exchange->session) {
        scan_first_byte(exchange);
    } else if (exchange->scans && !exchange->gone) {
        scan_head(exchange);
    }
    /* Unread bytes begin the next header. Bytes that libmicrohttpd has read were a whole request,
     * or belong to a stage that lasts. */
    if (places_stage(server->places, place_of(exchange)) == STAGE_QUIET && unread(exchange) > 0) {
        http_watch_stage(exchange, STAGE_HEAD);
    }
}

void http_watch_look(struct http_server *server)
{
    struct epoll_event events[EVENTS_A_TIME];
    size_t looked = 0;
    int count;
    /* Clients can send faster than this loop: the next run takes the rest. */
    do {
        count = epoll_wait(server->epoll_fd, events, EVENTS_A_TIME, 0);
        for (int i = 0; i < count; i++) {
            struct http_exchange *exchange = events[i].data.ptr;
            if (exchange) { /* NULL: another descriptor of the set */
                take_event(server, exchange, events[i].events);
            }
        }
        looked += EVENTS_A_TIME;
    } while (count == EVENTS_A_TIME && looked < server->exchange_count);
}

/* ---- deadlines ---- */

static uint64_t least_of(const struct http_route *route)
{
    return route && !route->sink                ? COLLECTED_BYTES_MIN
           : route && route->body_bytes_min > 0 ? route->body_bytes_min
                                                : STREAMED_BYTES_MIN;
}

/* Return whether the server has suspended the connection since the last check. At that time all of
 * its data for the client was on its way. */
static bool has_rested(struct http_exchange *exchange)
{
    http_server_lock(exchange->server);
    const bool rested = exchange->suspended || exchange->rested;
    exchange->rested = false;
    http_server_unlock(exchange->server);
    return rested;
}

/* Return whether the stage may continue: the server causes the delay, or enough bytes have moved
 * since the stage began. */
static bool goes_on(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;
    uint64_t moved;
    uint64_t least = STREAMED_BYTES_MIN;
    if (exchange->phase == PHASE_BODY) {
        least = least_of(exchange->route);
        moved = exchange->body_bytes;
    } else if (exchange->phase == PHASE_QUEUED) {
        moved = tcp_info_of(exchange).tcpi_bytes_acked; /* of all replies of the connection */
    } else {
        return false;
    }
    const bool server_is_slow = exchange->phase == PHASE_BODY && unread(exchange) > 0;
    const bool enough =
        has_rested(exchange) || server_is_slow || moved - exchange->moved_bytes >= least;
    http_watch_stage(exchange, places_stage(server->places, place_of(exchange)));
    exchange->moved_bytes = moved;
    return enough;
}

static void run_deadlines(struct http_server *server)
{
    size_t place;
    while ((place = places_overdue(server->places, server->now_ms)) != PLACE_NONE) {
        struct http_exchange *exchange = &server->exchanges[place];
        if (!goes_on(exchange)) {
            http_break_off(exchange);
        }
    }
}

void http_watch_run(struct http_server *server)
{
    run_ends(server);
    run_deadlines(server);
}
