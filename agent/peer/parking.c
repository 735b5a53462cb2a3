#include "agent/peer/parking.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/peer/ways.h"
#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "net/relay.h"

#define PLANS_MAX 4 /* at a time: the device's own, and those that fetch from it */
#define BERTHS_MAX (RELAYS_MAX * PLANS_MAX)
#define ANSWER_BYTES 256
#define ANSWER_MS 5000 /* timeout to connect, and for the relay's answer */
#define AGAIN_MS 250   /* wait after a failure, doubled with each failure in a row */
#define AGAIN_MS_MAX 5000

/* A place at a relay: the relay, and the name to park with. */
struct place {
    struct relay_url url;
    struct relay_name name;
    char ticket[TICKET_SIZE];
};

enum berth_state {
    BERTH_EMPTY, /* to be filled at due_ms */
    BERTH_CONNECTS,
    BERTH_ASKS, /* until the relay answers */
    BERTH_PARKED,
};

struct berth {
    struct place place;
    enum berth_state state;
    int fd;
    int64_t due_ms; /* EMPTY: next try; CONNECTS, ASKS: timeout */
    int64_t again_ms;
    bool failed; /* as logged */
    struct address relay;
    size_t addresses, tried; /* of the relay's name: their number, and how many failed */
};

struct parking {
    struct parking_config config;
    pthread_t thread;
    bool started;
    int wake_fd;
    pthread_mutex_t lock;
    struct place wanted[BERTHS_MAX]; /* guarded by lock, like the next three */
    size_t wanted_count;
    bool changed, ending;
    struct berth berth[BERTHS_MAX]; /* the thread's, like the next */
    size_t berth_count;
};

/* ---- one berth ---- */

static void leave(struct berth *berth)
{
    file_close(&berth->fd);
    berth->state = BERTH_EMPTY;
}

/* A name may have an IPv6 address while the relay listens only on IPv4. So all addresses are tried
 * before the relay counts as unavailable. */
static void fail(struct berth *berth, const char *why)
{
    leave(berth);
    berth->due_ms = clock_now_ms();
    if (++berth->tried < berth->addresses) {
        return;
    }
    if (!berth->failed) {
        log_warn("relay_unavailable", "relay=%s error=%s", berth->place.url.text,
                 log_quote(why).text);
    }
    berth->failed = true;
    berth->tried = 0;
    berth->due_ms += berth->again_ms;
    berth->again_ms = 2 * berth->again_ms < AGAIN_MS_MAX ? 2 * berth->again_ms : AGAIN_MS_MAX;
}

/* Find the next address of "http://HOST:PORT". It may block for long if a name server does not
 * answer; this thread has no other work. */
static int resolve(struct berth *berth, char why[ERR_TEXT_MAX])
{
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char host[URL_SIZE];
    struct addrinfo *found = NULL;
    const char *scheme = strstr(berth->place.url.text, "://");
    (void)snprintf(host, sizeof(host), "%s", scheme ? scheme + 3 : berth->place.url.text);
    char *port = strrchr(host, ':');
    berth->addresses = 0;
    if (!port) {
        (void)snprintf(why, ERR_TEXT_MAX, "the address has no port");
        return ERR_INVALID;
    }
    *port++ = '\0';
    const size_t size = strlen(host);
    const bool bracketed = host[0] == '[' && host[size - 1] == ']';
    host[size - bracketed] = '\0';
    const int failed = getaddrinfo(host + bracketed, port, &hints, &found);
    if (failed != 0) {
        (void)snprintf(why, ERR_TEXT_MAX, "find '%s': %s", host + bracketed, gai_strerror(failed));
        return ERR_NETWORK;
    }
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        if (berth->addresses++ == berth->tried || at == found) {
            address_set(&berth->relay, at->ai_addr);
        }
    }
    freeaddrinfo(found);
    return 0;
}

static void begin(struct berth *berth)
{
    char why[ERR_TEXT_MAX];
    if (resolve(berth, why) != 0) {
        fail(berth, why);
        return;
    }
    berth->fd = socket(berth->relay.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                       IPPROTO_TCP);
    if (berth->fd < 0 || (connect(berth->fd, (const struct sockaddr *)&berth->relay.storage,
                                  berth->relay.length) != 0 &&
                          errno != EINPROGRESS)) {
        fail(berth, strerror(errno));
        return;
    }
    relay_set_up(berth->fd);
    berth->state = BERTH_CONNECTS;
    berth->due_ms = clock_now_ms() + ANSWER_MS;
}

static void ask(struct berth *berth)
{
    int failed = 0;
    socklen_t size = sizeof(failed);
    char preface[RELAY_PREFACE_BYTES];
    if (getsockopt(berth->fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0 || failed != 0) {
        fail(berth, strerror(failed ? failed : errno));
        return;
    }
    const size_t bytes = relay_preface_park(berth->place.name.text, berth->place.ticket, preface);
    if (send(berth->fd, preface, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
        fail(berth, "the relay takes no request");
        return;
    }
    berth->state = BERTH_ASKS;
}

/* Read exactly the relay's answer, because the bytes that follow belong to the caller. */
static void take_answer(struct berth *berth)
{
    static const char end[] = "\r\n\r\n";
    char answer[ANSWER_BYTES + 1];
    const ssize_t there = recv(berth->fd, answer, ANSWER_BYTES, MSG_PEEK | MSG_DONTWAIT);
    if (there < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (there <= 0) {
        fail(berth, "the relay closes the connection");
        return;
    }
    answer[there] = '\0';
    const char *blank = memmem(answer, (size_t)there, end, sizeof(end) - 1);
    if (!blank) {
        if (there == ANSWER_BYTES) {
            fail(berth, "this is no relay");
        }
        return;
    }
    const size_t size = (size_t)(blank - answer) + sizeof(end) - 1;
    const bool parked = strncmp(answer, "HTTP/1.1 200 ", 13) == 0;
    char taken[ANSWER_BYTES];
    if (!parked || recv(berth->fd, taken, size, MSG_DONTWAIT) != (ssize_t)size) {
        answer[strcspn(answer, "\r\n")] = '\0';
        fail(berth, answer);
        return;
    }
    if (berth->failed) {
        log_info("relay_available", "relay=%s", berth->place.url.text);
    }
    berth->failed = false;
    berth->again_ms = AGAIN_MS;
    berth->state = BERTH_PARKED;
}

static void hand_over(struct parking *parking, struct berth *berth)
{
    char byte;
    const ssize_t there = recv(berth->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (there < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (there <= 0) {
        fail(berth, "the relay closed a parked connection");
        return;
    }
    parking->config.arrived(parking->config.arg, berth->fd);
    berth->fd = -1;
    berth->state = BERTH_EMPTY;
    berth->due_ms = 0;
}

/* ---- all of them ---- */

static bool is_same(const struct place *a, const struct place *b)
{
    return strcmp(a->url.text, b->url.text) == 0 && strcmp(a->name.text, b->name.text) == 0 &&
           strcmp(a->ticket, b->ticket) == 0;
}

static size_t find(const struct place *place, const struct place *in, size_t count, size_t stride)
{
    for (size_t i = 0; i < count; i++) {
        const void *at = (const char *)in + i * stride;
        if (is_same(place, at)) {
            return i;
        }
    }
    return count;
}

/* Close the berths that are no longer wanted, and add new ones. Returns whether the thread
 * continues. */
static bool follow(struct parking *parking)
{
    (void)pthread_mutex_lock(&parking->lock);
    const bool goes_on = !parking->ending;
    size_t kept = 0;
    for (size_t i = 0; parking->changed && i < parking->berth_count; i++) {
        struct berth *berth = &parking->berth[i];
        if (find(&berth->place, parking->wanted, parking->wanted_count, sizeof(struct place)) <
            parking->wanted_count) {
            parking->berth[kept++] = *berth;
        } else {
            leave(berth);
        }
    }
    parking->berth_count = parking->changed ? kept : parking->berth_count;
    for (size_t i = 0; parking->changed && i < parking->wanted_count; i++) {
        const struct place *place = &parking->wanted[i];
        if (find(place, &parking->berth[0].place, kept, sizeof(struct berth)) == kept) {
            parking->berth[parking->berth_count++] =
                (struct berth){.place = *place, .fd = -1, .again_ms = AGAIN_MS};
        }
    }
    parking->changed = false;
    (void)pthread_mutex_unlock(&parking->lock);
    return goes_on;
}

static void look(struct parking *parking, struct berth *berth, short ready)
{
    const int64_t now_ms = clock_now_ms();
    if (berth->state == BERTH_EMPTY && now_ms >= berth->due_ms) {
        begin(berth);
    } else if (berth->state == BERTH_CONNECTS && ready) {
        ask(berth);
    } else if (berth->state == BERTH_ASKS && ready) {
        take_answer(berth);
    } else if (berth->state == BERTH_PARKED && ready) {
        hand_over(parking, berth);
    } else if (berth->state != BERTH_EMPTY && berth->state != BERTH_PARKED &&
               now_ms >= berth->due_ms) {
        fail(berth, "the relay does not answer");
    }
}

static int wait_ms(const struct parking *parking)
{
    int64_t due_ms = INT64_MAX;
    for (size_t i = 0; i < parking->berth_count; i++) {
        const struct berth *berth = &parking->berth[i];
        if (berth->state != BERTH_PARKED && berth->due_ms < due_ms) {
            due_ms = berth->due_ms;
        }
    }
    const int64_t left_ms = due_ms == INT64_MAX ? -1 : due_ms - clock_now_ms();
    return due_ms == INT64_MAX ? -1 : left_ms <= 0 ? 0 : left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

static void *park(void *arg)
{
    struct parking *parking = arg;
    thread_set_name("parking");
    while (follow(parking)) {
        struct pollfd fd[1 + BERTHS_MAX] = {{.fd = parking->wake_fd, .events = POLLIN}};
        for (size_t i = 0; i < parking->berth_count; i++) {
            const struct berth *berth = &parking->berth[i];
            fd[1 + i] = (struct pollfd){
                .fd = berth->fd, .events = berth->state == BERTH_CONNECTS ? POLLOUT : POLLIN};
        }
        if (poll(fd, 1 + parking->berth_count, wait_ms(parking)) < 0 && errno != EINTR) {
            log_error("parking_failed", "error=%s", log_quote(strerror(errno)).text);
            return NULL;
        }
        if (fd[0].revents) {
            eventfd_t count;
            (void)eventfd_read(parking->wake_fd, &count);
        }
        for (size_t i = 0; i < parking->berth_count; i++) {
            look(parking, &parking->berth[i], fd[1 + i].revents);
        }
    }
    for (size_t i = 0; i < parking->berth_count; i++) {
        leave(&parking->berth[i]);
    }
    return NULL;
}

/* ---- the owner's side ---- */

static void wake(struct parking *parking, bool ending)
{
    (void)pthread_mutex_lock(&parking->lock);
    parking->changed = true;
    parking->ending = ending;
    (void)pthread_mutex_unlock(&parking->lock);
    (void)eventfd_write(parking->wake_fd, 1);
}

void parking_set(struct parking *parking, const struct device_id *device,
                 const struct assignment *assignment)
{
    struct place wanted[BERTHS_MAX];
    size_t count = 0;
    for (size_t r = 0; r < assignment->relay_count; r++) {
        size_t plans = 0;
        for (size_t i = 0; i < assignment->caller_count && plans < PLANS_MAX; i++) {
            const struct caller *caller = &assignment->caller[i];
            struct place place = {
                .url = ways_relay_url(parking->config.coordinator, &assignment->relay[r]),
                .name = ways_relay_name(device, &caller->plan)};
            memcpy(place.ticket, caller->relay_ticket, sizeof(place.ticket));
            if (place.ticket[0] != '\0' && find(&place, wanted, count, sizeof(place)) == count) {
                wanted[count++] = place;
                plans++;
            }
        }
    }
    (void)pthread_mutex_lock(&parking->lock);
    memcpy(parking->wanted, wanted, count * sizeof(wanted[0]));
    parking->wanted_count = count;
    (void)pthread_mutex_unlock(&parking->lock);
    wake(parking, false);
}

int parking_new(const struct parking_config *config, struct parking **out, struct err *err)
{
    struct parking *parking = calloc(1, sizeof(*parking));
    if (!parking || pthread_mutex_init(&parking->lock, NULL) != 0) {
        free(parking);
        return err_set(err, ERR_MEMORY, "parking");
    }
    parking->config = *config;
    parking->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = parking->wake_fd < 0
                 ? err_set(err, err_from_errno(errno), "eventfd: %s", strerror(errno))
                 : thread_start(&parking->thread, park, parking, err);
    parking->started = rc == 0;
    if (rc != 0) {
        parking_free(&parking);
        return rc;
    }
    *out = parking;
    return 0;
}

void parking_free(struct parking **parking)
{
    struct parking *dying = *parking;
    if (dying) {
        if (dying->started) {
            wake(dying, true);
            (void)pthread_join(dying->thread, NULL);
        }
        file_close(&dying->wake_fd);
        (void)pthread_mutex_destroy(&dying->lock);
        free(dying);
        *parking = NULL;
    }
}
