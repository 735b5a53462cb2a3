#include "net/relay.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "net/relay_desk.h"

#define EVENTS_MAX 64
/* A peer that vanished without closing its connection is detected after this time. */
#define VANISHED_MS 20000
#define KEEPALIVE_SECONDS 10
/* Without a descriptor or room for it, a new connection waits this long in the listener's queue. */
#define FULL_MS 200

/* Values in epoll's events other than the index of a connection. */
#define LISTENER UINT32_MAX
#define STOP (UINT32_MAX - 1)

struct relay {
    struct address address;
    int listen_fd, epoll_fd, stop_fd;
    pthread_t thread;
    bool started;
    bool full; /* the listener waits until full_until_ms */
    int64_t full_until_ms;
    struct relay_desk *desk;
};

/* ---- accepting ---- */

static int watch(const struct relay *relay, int operation, int fd, uint32_t what, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u32 = what};
    return epoll_ctl(relay->epoll_fd, operation, fd, &event);
}

/* Failures are ignored: a missing option costs only speed or the detection of a vanished peer. */
void relay_set_up(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1}, /* also keeps the entry of a NAT alive */
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_SECONDS},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_SECONDS / 2},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, VANISHED_MS},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
    }
}

static void pause_listening(struct relay *relay)
{
    relay->full = true;
    relay->full_until_ms = clock_now_ms() + FULL_MS;
    (void)watch(relay, EPOLL_CTL_MOD, relay->listen_fd, LISTENER, 0);
}

static void accept_some(struct relay *relay)
{
    for (size_t i = 0; i < EVENTS_MAX && !relay->full; i++) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof(peer);
        if (!relay_desk_has_room(relay->desk)) {
            pause_listening(relay);
            return;
        }
        const int fd = accept4(relay->listen_fd, (struct sockaddr *)&peer, &size,
                               SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                pause_listening(relay);
            }
            return;
        }
        relay_set_up(fd);
        const size_t index = relay_desk_take(relay->desk, fd, (const struct sockaddr *)&peer);
        if (index != RELAY_DESK_NONE && watch(relay, EPOLL_CTL_ADD, fd, (uint32_t)index,
                                              EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)) {
            relay_desk_drop(relay->desk, index);
        }
    }
}

/* ---- the thread ---- */

static int wait_ms(const struct relay *relay)
{
    int64_t due_ms = relay_desk_deadline_ms(relay->desk);
    due_ms = relay->full && relay->full_until_ms < due_ms ? relay->full_until_ms : due_ms;
    if (relay_desk_has_more(relay->desk)) {
        return 0;
    }
    if (due_ms == INT64_MAX) {
        return -1;
    }
    const int64_t left_ms = due_ms - clock_now_ms();
    return left_ms <= 0 ? 0 : left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

static void *serve(void *arg)
{
    struct relay *relay = arg;
    (void)pthread_setname_np(pthread_self(), "relay");
    for (;;) {
        struct epoll_event event[EVENTS_MAX];
        const int count = epoll_wait(relay->epoll_fd, event, EVENTS_MAX, wait_ms(relay));
        if (count < 0 && errno != EINTR) {
            log_error("relay_failed", "error=%s", log_quote(strerror(errno)).text);
            return NULL;
        }
        for (int i = 0; i < count; i++) {
            if (event[i].data.u32 == STOP) {
                return NULL;
            }
            if (event[i].data.u32 < RELAY_CONNECTIONS_MAX) {
                relay_desk_look(relay->desk, event[i].data.u32);
            }
        }
        /* Accept after all events. A new connection may get the index of a closed one, of which no
         * event is left now. */
        accept_some(relay);
        relay_desk_move_more(relay->desk);
        relay_desk_end_overdue(relay->desk, clock_now_ms());
        if (relay->full && clock_now_ms() >= relay->full_until_ms) {
            relay->full = false;
            (void)watch(relay, EPOLL_CTL_MOD, relay->listen_fd, LISTENER, EPOLLIN);
        }
    }
}

static int start_thread(struct relay *relay, struct err *err)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&relay->thread, NULL, serve, relay);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    relay->started = failed == 0;
    return failed ? err_set(err, ERR_MEMORY, "start the relay: %s", strerror(failed)) : 0;
}

static int listen_on(struct relay *relay, const struct address *wanted, struct err *err)
{
    struct sockaddr_storage name;
    socklen_t name_size = sizeof(name);
    relay->listen_fd =
        socket(wanted->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (relay->listen_fd < 0 ||
        setsockopt(relay->listen_fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
        bind(relay->listen_fd, (const struct sockaddr *)&wanted->storage, wanted->length) ||
        listen(relay->listen_fd, SOMAXCONN) ||
        getsockname(relay->listen_fd, (struct sockaddr *)&name, &name_size)) {
        return err_set(err, ERR_NETWORK, "listen on %s: %s", wanted->text, strerror(errno));
    }
    address_set(&relay->address, (const struct sockaddr *)&name);
    return 0;
}

int relay_open(const struct relay_config *config, struct relay **out, struct err *err)
{
    AUTO(relay_close) struct relay *relay = calloc(1, sizeof(*relay));
    if (!relay) {
        return err_set(err, ERR_MEMORY, "no memory for the relay");
    }
    relay->listen_fd = -1;
    relay->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    relay->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = relay_desk_new(config->key, config->arg, &relay->desk, err);
    rc = rc ? rc : listen_on(relay, &config->listen, err);
    if (!rc && (relay->epoll_fd < 0 || relay->stop_fd < 0 ||
                watch(relay, EPOLL_CTL_ADD, relay->stop_fd, STOP, EPOLLIN) ||
                watch(relay, EPOLL_CTL_ADD, relay->listen_fd, LISTENER, EPOLLIN))) {
        rc = err_set(err, ERR_IO, "watch the relay: %s", strerror(errno));
    }
    rc = rc ? rc : start_thread(relay, err);
    if (rc) {
        return rc;
    }
    *out = relay;
    relay = NULL;
    return 0;
}

void relay_close(struct relay **relay)
{
    struct relay *dying = *relay;
    if (!dying) {
        return;
    }
    if (dying->started) {
        (void)eventfd_write(dying->stop_fd, 1);
        (void)pthread_join(dying->thread, NULL);
    }
    relay_desk_free(&dying->desk);
    file_close(&dying->listen_fd);
    file_close(&dying->epoll_fd);
    file_close(&dying->stop_fd);
    free(dying);
    *relay = NULL;
}

const struct address *relay_address(const struct relay *relay)
{
    return &relay->address;
}

struct relay_counts relay_counts(const struct relay *relay)
{
    return relay_desk_counts(relay->desk);
}
