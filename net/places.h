/* places.h: decides which clients may have a connection to a server, and for how long. Every
 * connection has a place and is in one stage; stages have deadlines, places have bounds. A client
 * that proved its identity (an enrolled agent, the holder of a ticket) is known. All others are
 * strangers, which share a part of the places.
 *
 * Pure: the caller owns sockets and clock, and closes the connections that this module names. One
 * thread. */
#ifndef NET_PLACES_H
#define NET_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PLACE_NONE SIZE_MAX

enum place_stage {
    STAGE_QUIET, /* between two requests, before the first byte of the next */
    STAGE_HEAD,  /* the header is arriving */
    STAGE_GUEST, /* the body of a stranger's request in the reserved share is arriving */
    STAGE_BODY,  /* any other body is arriving */
    STAGE_WAIT,  /* the server must answer */
    STAGE_REPLY, /* the reply is being sent */
    STAGE_COUNT,
};

struct places_limits {
    size_t total;       /* connections; a further one replaces another, or is closed */
    size_t strangers;   /* concurrent requests of strangers; the rest of `total` is reserved */
    size_t per_address; /* strangers' connections, and their requests, of one address */
    int64_t
        stage_ms[STAGE_COUNT]; /* longest time in a stage without places_enter_stage; 0: no bound */
};

struct places;

/* Create the places 0 .. capacity-1. capacity is larger than limits->total, because a connection
 * that is broken off keeps its place until places_leave. */
NODISCARD int places_new(const struct places_limits *limits, size_t capacity, struct places **out,
                         struct err *err);
void places_free(struct places **places);

/* Enter a stranger's new connection, in STAGE_HEAD. address: equal for connections that share a
 * bound. Returns the connection that the caller must close to make room, or PLACE_NONE: none. It is
 * already broken off, as by places_break_off. It is another stranger without a request (first one
 * with a late header, then the one with the longest silence), or the new connection itself. */
size_t places_enter(struct places *places, size_t place, uint64_t address, int64_t now_ms);
/* Free the place of a connection. */
void places_leave(struct places *places, size_t place);
/* Break off a connection, which will be closed: it no longer counts and has no deadline. */
void places_break_off(struct places *places, size_t place);

/* Return whether a request with a complete header may be served. `reserved`: it may use the
 * reserved share. */
bool places_admit(struct places *places, size_t place, bool reserved);
/* Enter a stage, or the present one again. A connection has no request before places_admit and in
 * STAGE_QUIET. */
void places_enter_stage(struct places *places, size_t place, enum place_stage stage,
                        int64_t now_ms);
enum place_stage places_stage(const struct places *places, size_t place);
/* Note that the client has proved its identity; it stays known until places_leave. */
void places_know(struct places *places, size_t place, int64_t now_ms);
bool places_knows(const struct places *places, size_t place);

/* Return a connection whose time in its stage has ended, or PLACE_NONE. Close it, or let it enter
 * the stage again. */
size_t places_overdue(const struct places *places, int64_t now_ms);
/* Return the next time at which places_overdue returns a connection; INT64_MAX: never. */
int64_t places_deadline_ms(const struct places *places);

#endif
