/* relaying.h: the coordinator's own relay (net/relay.h), for the devices of its plans. For the
 * program; the loop's thread only. */
#ifndef COORDINATOR_RELAYING_H
#define COORDINATOR_RELAYING_H

#include "base/err.h"

struct coordinator;

/* Open coordinator->relay, as the options say, after the key of tickets. An address that the user
 * did not ask for may be in use: then there is none, and the log says so. ERR_NETWORK, ERR_MEMORY.
 */
NODISCARD int relaying_open(struct coordinator *coordinator, struct err *err);
/* Where agents find it; 0: there is none. */
int relaying_port(const struct coordinator *coordinator);
void relaying_close(struct coordinator *coordinator);

#endif
