#include "net/relay_desk.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "net/places.h"
#include "net/relay_pipe.h"

/* Connections of one address that have presented no ticket yet. */
#define STRANGERS_PER_ADDRESS 64
#define PREFACE_MS 5000
#define PARKED_PER_NAME 4

enum connection_state {
    CONNECTION_FREE,
    CONNECTION_PREFACE, /* its preface is arriving */
    CONNECTION_PARKED,  /* waits for a caller */
    CONNECTION_HELD,    /* a caller that waits for its device */
    CONNECTION_JOINED,
};

struct connection {
    int fd;
    enum connection_state state;
    char name[RELAY_NAME_SIZE];
    uint64_t number;        /* in the order of prefaces */
    size_t other;           /* JOINED: index of the peer */
    struct relay_pipe pipe; /* JOINED: takes the bytes from this connection */
    bool queued;            /* JOINED: in desk->more */
    size_t preface_size;
    char preface[RELAY_PREFACE_BYTES];
};

struct relay_desk {
    bool (*key)(void *arg, const char *name, uint8_t out[HASH_SIZE]);
    void *arg;
    struct places *places;
    uint64_t prefaces;
    bool lacks_pipes; /* no pipes: logged once until pipes are available */
    struct connection connection[RELAY_CONNECTIONS_MAX];
    size_t more[RELAY_CONNECTIONS_MAX]; /* connections with bytes left after their turn */
    size_t more_count;
    atomic_uint_least64_t bytes, joined, refused, parked, streams;
};

/* ---- connections ---- */

static size_t index_of(const struct relay_desk *desk, const struct connection *connection)
{
    return (size_t)(connection - desk->connection);
}

static void count_state(struct relay_desk *desk, enum connection_state state, bool enters)
{
    atomic_uint_least64_t *count = state == CONNECTION_PARKED   ? &desk->parked
                                   : state == CONNECTION_JOINED ? &desk->streams
                                                                : NULL;
    if (count && enters) {
        (void)atomic_fetch_add(count, 1);
    } else if (count) {
        (void)atomic_fetch_sub(count, 1);
    }
}

/* Return the stage whose time limit applies to the state (struct places_limits). */
static enum place_stage stage_of(enum connection_state state)
{
    return state == CONNECTION_PREFACE ? STAGE_HEAD
           : state == CONNECTION_HELD  ? STAGE_WAIT
                                       : STAGE_QUIET;
}

static void set_state(struct relay_desk *desk, struct connection *connection,
                      enum connection_state state)
{
    count_state(desk, connection->state, false);
    count_state(desk, state, true);
    connection->state = state;
    if (state != CONNECTION_FREE) {
        places_enter_stage(desk->places, index_of(desk, connection), stage_of(state),
                           clock_now_ms());
    }
}

static void close_one(struct relay_desk *desk, struct connection *connection)
{
    set_state(desk, connection, CONNECTION_FREE);
    places_leave(desk->places, index_of(desk, connection));
    relay_pipe_close(&connection->pipe);
    file_close(&connection->fd);
}

static void close_connection(struct relay_desk *desk, struct connection *connection)
{
    if (connection->state == CONNECTION_JOINED) {
        close_one(desk, &desk->connection[connection->other]);
    }
    close_one(desk, connection);
}

/* Send a short text. It is the first data to this client, so the socket has room for it. */
static bool say(const struct connection *connection, const char *text)
{
    const size_t size = strlen(text);
    return send(connection->fd, text, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static void refuse(struct relay_desk *desk, struct connection *connection, const char *answer)
{
    (void)say(connection, answer); /* close the connection even if this fails */
    (void)shutdown(connection->fd, SHUT_WR);
    close_connection(desk, connection);
}

#define REFUSAL(status) "HTTP/1.1 " status "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

/* ---- streams ---- */

static void move_later(struct relay_desk *desk, struct connection *connection)
{
    if (!connection->queued) {
        ASSERT(desk->more_count < RELAY_CONNECTIONS_MAX);
        connection->queued = true;
        desk->more[desk->more_count++] = index_of(desk, connection);
    }
}

/* Move the available bytes in both directions. */
static void move(struct relay_desk *desk, struct connection *connection)
{
    struct connection *both[] = {connection, &desk->connection[connection->other]};
    for (size_t i = 0; i < 2; i++) {
        struct connection *from = both[i], *to = both[1 - i];
        uint64_t bytes = 0;
        const enum relay_move moved = relay_pipe_move(&from->pipe, from->fd, to->fd, &bytes);
        (void)atomic_fetch_add(&desk->bytes, bytes);
        if (moved == RELAY_BROKEN) {
            close_connection(desk, connection);
            return;
        }
        if (moved == RELAY_MORE) {
            move_later(desk, from);
        }
    }
    if (both[0]->pipe.passed && both[1]->pipe.passed) {
        close_connection(desk, connection);
    }
}

/* Give one turn to each stream with bytes left, so that no stream waits for the end of another. */
void relay_desk_move_more(struct relay_desk *desk)
{
    size_t more[RELAY_CONNECTIONS_MAX];
    const size_t count = desk->more_count;
    memcpy(more, desk->more, count * sizeof(more[0]));
    desk->more_count = 0;
    for (size_t i = 0; i < count; i++) {
        desk->connection[more[i]].queued = false;
    }
    for (size_t i = 0; i < count; i++) {
        struct connection *connection = &desk->connection[more[i]];
        if (connection->state == CONNECTION_JOINED) {
            move(desk, connection);
        }
    }
}

static void join(struct relay_desk *desk, struct connection *caller, struct connection *device)
{
    struct err err = {0};
    if (relay_pipe_open(&caller->pipe, &err) || relay_pipe_open(&device->pipe, &err)) {
        if (!desk->lacks_pipes) {
            log_warn("relay_full", "error=%s", log_quote(err.text).text);
        }
        desk->lacks_pipes = true;
        relay_pipe_close(&device->pipe);
        refuse(desk, caller, REFUSAL("503 Service Unavailable"));
        return;
    }
    desk->lacks_pipes = false;
    caller->other = index_of(desk, device);
    device->other = index_of(desk, caller);
    set_state(desk, caller, CONNECTION_JOINED);
    set_state(desk, device, CONNECTION_JOINED);
    (void)atomic_fetch_add(&desk->joined, 1);
    if (!say(caller, "HTTP/1.1 200 Connected\r\n\r\n")) {
        close_connection(desk, caller);
        return;
    }
    move(desk, caller);
}

/* ---- prefaces ---- */

/* Return the newest (or else the oldest) connection with this name and state, and their count. */
static struct connection *find(struct relay_desk *desk, const char *name,
                               enum connection_state state, bool newest, size_t *count)
{
    struct connection *found = NULL;
    *count = 0;
    for (size_t i = 0; i < RELAY_CONNECTIONS_MAX; i++) {
        struct connection *connection = &desk->connection[i];
        if (connection->state == state && strcmp(connection->name, name) == 0) {
            const bool newer = found && connection->number > found->number;
            found = !found || newer == newest ? connection : found;
            ++*count;
        }
    }
    return found;
}

/* A device parks again after its connections broke unnoticed. So the oldest one beyond
 * PARKED_PER_NAME is dead. */
static void park(struct relay_desk *desk, struct connection *connection)
{
    size_t count = 0;
    if (!say(connection, "HTTP/1.1 200 Parked\r\n\r\n")) {
        close_connection(desk, connection);
        return;
    }
    connection->number = ++desk->prefaces;
    set_state(desk, connection, CONNECTION_PARKED);
    struct connection *caller = find(desk, connection->name, CONNECTION_HELD, false, &count);
    if (caller) {
        join(desk, caller, connection);
        return;
    }
    struct connection *oldest = find(desk, connection->name, CONNECTION_PARKED, false, &count);
    if (count > PARKED_PER_NAME) {
        close_connection(desk, oldest);
    }
}

static void call(struct relay_desk *desk, struct connection *connection)
{
    size_t count = 0;
    connection->number = ++desk->prefaces;
    struct connection *device = find(desk, connection->name, CONNECTION_PARKED, true, &count);
    if (device) {
        join(desk, connection, device);
    } else {
        set_state(desk, connection, CONNECTION_HELD);
    }
}

static bool is_allowed(struct relay_desk *desk, const struct relay_preface *preface)
{
    uint8_t key[HASH_SIZE];
    char ticket[HASH_TEXT_SIZE];
    unsigned difference = 0;
    if (!desk->key(desk->arg, preface->name, key)) {
        return false;
    }
    relay_ticket(key, preface->verb, preface->name, ticket);
    for (size_t i = 0; i < sizeof(ticket); i++) {
        difference |= (unsigned)(ticket[i] ^ preface->ticket[i]);
    }
    return difference == 0;
}

static void log_refusal(struct relay_desk *desk, const struct connection *connection,
                        const char *why)
{
    struct sockaddr_storage storage;
    socklen_t size = sizeof(storage);
    struct address address = {.text = ""};
    if (getpeername(connection->fd, (struct sockaddr *)&storage, &size) == 0) {
        address_set(&address, (const struct sockaddr *)&storage);
    }
    (void)atomic_fetch_add(&desk->refused, 1);
    log_info("relay_refused", "address=%s reason=%s", address.text, log_quote(why).text);
}

static void take_preface(struct relay_desk *desk, struct connection *connection, size_t size,
                         const struct relay_preface *preface)
{
    /* Devices and callers must wait for an answer before they send more. */
    if (size != connection->preface_size) {
        log_refusal(desk, connection, "bytes follow the preface");
        refuse(desk, connection, REFUSAL("400 Bad Request"));
        return;
    }
    if (!is_allowed(desk, preface)) {
        log_refusal(desk, connection, "wrong ticket");
        refuse(desk, connection, REFUSAL("403 Forbidden"));
        return;
    }
    memcpy(connection->name, preface->name, sizeof(connection->name));
    places_know(desk->places, index_of(desk, connection), clock_now_ms());
    if (preface->verb == RELAY_PARK) {
        park(desk, connection);
    } else {
        call(desk, connection);
    }
}

static void read_preface(struct relay_desk *desk, struct connection *connection)
{
    struct relay_preface preface;
    struct err err = {0};
    for (;;) {
        const ssize_t count =
            recv(connection->fd, connection->preface + connection->preface_size,
                 sizeof(connection->preface) - connection->preface_size, MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (count <= 0) {
            close_connection(desk, connection);
            return;
        }
        connection->preface_size += (size_t)count;
        const int size =
            relay_preface_read(connection->preface, connection->preface_size, &preface, &err);
        if (size < 0) {
            log_refusal(desk, connection, err.text);
            refuse(desk, connection, REFUSAL("400 Bad Request"));
            return;
        }
        if (size > 0) {
            take_preface(desk, connection, (size_t)size, &preface);
            return;
        }
    }
}

/* A waiting side sends nothing but its end. */
static void look_at_waiting(struct relay_desk *desk, struct connection *connection)
{
    char byte;
    if (recv(connection->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0 ||
        (errno != EAGAIN && errno != EINTR)) {
        close_connection(desk, connection);
    }
}

void relay_desk_look(struct relay_desk *desk, size_t index)
{
    struct connection *connection = &desk->connection[index];
    switch (connection->state) {
    case CONNECTION_FREE: break;
    case CONNECTION_PREFACE: read_preface(desk, connection); break;
    case CONNECTION_PARKED:
    case CONNECTION_HELD: look_at_waiting(desk, connection); break;
    case CONNECTION_JOINED: move(desk, connection); break;
    }
}

/* ---- the desk ---- */

static size_t free_index(const struct relay_desk *desk)
{
    size_t i = 0;
    while (i < RELAY_CONNECTIONS_MAX && desk->connection[i].state != CONNECTION_FREE) {
        i++;
    }
    return i;
}

bool relay_desk_has_room(const struct relay_desk *desk)
{
    return free_index(desk) < RELAY_CONNECTIONS_MAX;
}

size_t relay_desk_take(struct relay_desk *desk, int fd, const struct sockaddr *peer)
{
    const size_t index = free_index(desk);
    ASSERT(index < RELAY_CONNECTIONS_MAX);
    struct connection *connection = &desk->connection[index];
    connection->fd = fd;
    connection->queued = false;
    connection->preface_size = 0;
    const size_t victim =
        places_enter(desk->places, index, address_client_key(peer), clock_now_ms());
    set_state(desk, connection, CONNECTION_PREFACE);
    if (victim != PLACE_NONE) {
        close_connection(desk, &desk->connection[victim]);
    }
    return victim == index ? RELAY_DESK_NONE : index;
}

void relay_desk_drop(struct relay_desk *desk, size_t index)
{
    close_connection(desk, &desk->connection[index]);
}

bool relay_desk_has_more(const struct relay_desk *desk)
{
    return desk->more_count > 0;
}

void relay_desk_end_overdue(struct relay_desk *desk, int64_t now_ms)
{
    size_t index;
    while ((index = places_overdue(desk->places, now_ms)) != PLACE_NONE) {
        struct connection *connection = &desk->connection[index];
        refuse(desk, connection,
               connection->state == CONNECTION_HELD ? REFUSAL("504 Gateway Timeout")
                                                    : REFUSAL("408 Request Timeout"));
    }
}

int64_t relay_desk_deadline_ms(const struct relay_desk *desk)
{
    return places_deadline_ms(desk->places);
}

struct relay_counts relay_desk_counts(const struct relay_desk *desk)
{
    return (struct relay_counts){.bytes = atomic_load(&desk->bytes),
                                 .joined = atomic_load(&desk->joined),
                                 .refused = atomic_load(&desk->refused),
                                 .parked = atomic_load(&desk->parked),
                                 .streams = atomic_load(&desk->streams)};
}

int relay_desk_new(bool (*key)(void *arg, const char *name, uint8_t out[HASH_SIZE]), void *arg,
                   struct relay_desk **out, struct err *err)
{
    static const struct places_limits limits = {
        .total = RELAY_CONNECTIONS_MAX - 1, /* a new connection may displace a stranger */
        .strangers = RELAY_CONNECTIONS_MAX / 2,
        .per_address = STRANGERS_PER_ADDRESS,
        .stage_ms = {[STAGE_HEAD] = PREFACE_MS, [STAGE_WAIT] = RELAY_HOLD_MS},
    };
    struct relay_desk *desk = calloc(1, sizeof(*desk));
    if (!desk) {
        return err_set(err, ERR_MEMORY, "no memory for the connections of a relay");
    }
    desk->key = key;
    desk->arg = arg;
    for (size_t i = 0; i < RELAY_CONNECTIONS_MAX; i++) {
        desk->connection[i].fd = -1;
        desk->connection[i].pipe.end[0] = desk->connection[i].pipe.end[1] = -1;
    }
    const int rc = places_new(&limits, RELAY_CONNECTIONS_MAX, &desk->places, err);
    if (rc) {
        free(desk);
        return rc;
    }
    *out = desk;
    return 0;
}

void relay_desk_free(struct relay_desk **desk)
{
    if (*desk) {
        for (size_t i = 0; i < RELAY_CONNECTIONS_MAX; i++) {
            relay_pipe_close(&(*desk)->connection[i].pipe);
            file_close(&(*desk)->connection[i].fd);
        }
        places_free(&(*desk)->places);
        free(*desk);
        *desk = NULL;
    }
}
