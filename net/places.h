/* places.h: which clients may have a connection to a server, and for how long. Every connection has
 * a place and is in one stage; stages have deadlines, places have bounds. A client that proved its
 * identity (an enrolled agent, the holder of a ticket) is known. All others are strangers, which
 * share a part of the places.
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
    STAGE_HEAD,  /* the header is coming in */
    STAGE_GUEST, /* the body of a stranger's request in the reserved share is coming in */
    STAGE_BODY,  /* any other body is coming in */
    STAGE_WAIT,  /* the server has to answer */
    STAGE_REPLY, /* the reply is being sent */
    STAGE_COUNT,
};

struct places_limits {
    size_t total;       /* connections; one more takes the place of another, or is closed */
    size_t strangers;   /* requests of strangers at once; the rest of `total` is reserved */
    size_t per_address; /* strangers' connections, and their requests, of one address */
    int64_t
        stage_ms[STAGE_COUNT]; /* longest time in a stage without places_enter_stage; 0: no bound */
};

struct places;

/* capacity: places are 0 .. capacity-1; more than limits->total, because one that is broken off
 * keeps its place until places_leave. */
NODISCARD int places_new(const struct places_limits *limits, size_t capacity, struct places **out,
                         struct err *err);
void places_free(struct places **places);

/* A stranger connects, in STAGE_HEAD. address: equal for those that share a bound. Returns the
 * connection to break off for it, as if by places_break_off, or PLACE_NONE. It is the new one
 * itself, or another stranger without a request: first one with a late header, then the one that
 * was silent for longest. */
size_t places_enter(struct places *places, size_t place, uint64_t address, int64_t now_ms);
/* The connection's place is free again. */
void places_leave(struct places *places, size_t place);
/* The connection will be closed: it no longer counts, and its deadline is over. */
void places_break_off(struct places *places, size_t place);

/* Whether the request whose header is there may be served. `reserved`: it may use the reserved
 * share. */
bool places_admit(struct places *places, size_t place, bool reserved);
/* Enter a stage, or the same one again. Before places_admit and with STAGE_QUIET there is no
 * request. */
void places_enter_stage(struct places *places, size_t place, enum place_stage stage,
                        int64_t now_ms);
enum place_stage places_stage(const struct places *places, size_t place);
/* The client has proved its identity; it stays known until places_leave. */
void places_know(struct places *places, size_t place, int64_t now_ms);
bool places_knows(const struct places *places, size_t place);

/* A connection whose time in its stage has ended, or PLACE_NONE: close it, or let it enter the
 * stage again. */
size_t places_overdue(const struct places *places, int64_t now_ms);
/* The next time at which places_overdue has one; INT64_MAX: none. */
int64_t places_deadline_ms(const struct places *places);

#endif
