/* relaying.h: the coordinator's own relay (net/relay.h), for the devices of its plans. For the
 * program; the loop's thread only. */
#ifndef COORDINATOR_RELAYING_H
#define COORDINATOR_RELAYING_H

#include "base/err.h"

struct coordinator;

/* Open coordinator->relay by the options, after the ticket key is known. If another program uses
 * the default address, there is no relay, and the log says so. ERR_NETWORK, ERR_MEMORY. */
NODISCARD int relaying_open(struct coordinator *coordinator, struct err *err);
/* Return the relay's port for agents; 0: no relay. */
int relaying_port(const struct coordinator *coordinator);
void relaying_close(struct coordinator *coordinator);

#endif
