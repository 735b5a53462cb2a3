/* relay_desk.h: handles the connections of a relay, from their prefaces to their ends: parks
 * devices, holds callers, joins a caller with its device, refuses others. For relay.c, which
 * accepts connections and waits for their sockets. One thread; relay_desk_counts: any thread. */
#ifndef NET_RELAY_DESK_H
#define NET_RELAY_DESK_H

#include <sys/socket.h>

#include "net/relay.h"

#define RELAY_DESK_NONE SIZE_MAX

struct relay_desk;

/* Create a desk. key and arg: see struct relay_config. */
NODISCARD int relay_desk_new(bool (*key)(void *arg, const char *name, uint8_t out[HASH_SIZE]),
                             void *arg, struct relay_desk **out, struct err *err);
/* Close all connections. */
void relay_desk_free(struct relay_desk **desk);

bool relay_desk_has_room(const struct relay_desk *desk);
/* Take an accepted socket; the desk must have room. Returns its index, or RELAY_DESK_NONE: closed,
 * because its address has too many connections. */
size_t relay_desk_take(struct relay_desk *desk, int fd, const struct sockaddr *peer);
/* Close a connection. */
void relay_desk_drop(struct relay_desk *desk, size_t index);
/* Advance the connection of this index, whose socket became ready for reading or writing (EPOLLET).
 * An index without a connection is ignored. */
void relay_desk_look(struct relay_desk *desk, size_t index);
/* Return whether bytes wait for relay_desk_move_more, not for a socket. */
bool relay_desk_has_more(const struct relay_desk *desk);
void relay_desk_move_more(struct relay_desk *desk);
/* Refuse connections past their deadline. */
void relay_desk_end_overdue(struct relay_desk *desk, int64_t now_ms);
/* Return the time of the next deadline; INT64_MAX: never. */
int64_t relay_desk_deadline_ms(const struct relay_desk *desk);
struct relay_counts relay_desk_counts(const struct relay_desk *desk);

#endif
