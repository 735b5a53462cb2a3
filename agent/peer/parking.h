/* parking.h: makes this device reachable through relays (net/relay.h). A thread keeps one
 * connection parked at each relay for each plan with callers. When a caller's first byte arrives on
 * a parked connection, the owner gets it as if it had accepted the connection, and the thread parks
 * another one. */
#ifndef AGENT_PEER_PARKING_H
#define AGENT_PEER_PARKING_H

#include "base/err.h"
#include "net/address.h"
#include "schema/assignment.h"

struct parking;

struct parking_config {
    const char *coordinator; /* its URL, borrowed */
    /* Called on the parking's thread with a connection; fd is taken. */
    void (*arrived)(void *arg, int fd);
    void *arg;
};

NODISCARD int parking_new(const struct parking_config *config, struct parking **out,
                          struct err *err);
/* Park connections only at the relays of the assignment, for its callers. */
void parking_set(struct parking *parking, const struct device_id *device,
                 const struct assignment *assignment);
/* Close the parked connections and wait for the thread's end. */
void parking_free(struct parking **parking);

#endif
