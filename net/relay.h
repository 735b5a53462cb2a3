/* relay.h: a relay joins two incoming connections: that of a device that other devices cannot
 * reach, which parks here, and that of a caller. It forwards their bytes unread; if they use TLS,
 * the bytes are encrypted end to end. It has its own listener and thread. Bytes wait in pipes of
 * the kernel, never in the memory of the process, and a slow reader stops its sender.
 * docs/adr/0125.
 *
 * Names and tickets: relay_preface.h. */
#ifndef NET_RELAY_H
#define NET_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "net/address.h"
#include "net/relay_preface.h"

#define RELAY_CONNECTIONS_MAX 512
#define RELAY_DESCRIPTORS_MAX (RELAY_CONNECTIONS_MAX * 3 + 64) /* pipes included */
/* The longest wait of a caller for its device to park. */
#define RELAY_HOLD_MS 1000

struct relay;

struct relay_config {
    struct address listen;
    /* Get the key of a name's tickets; false: the relay does not serve this name. On the relay's
     * thread. */
    bool (*key)(void *arg, const char *name, uint8_t out[HASH_SIZE]);
    void *arg;
};

struct relay_counts {
    uint64_t bytes;           /* forwarded since the start, both directions */
    uint64_t joined;          /* pairs of connections, since the start */
    uint64_t refused;         /* wrong tickets, malformed prefaces, since the start */
    uint64_t parked, streams; /* now */
};

/* Listen and start the thread. ERR_NETWORK: the address is in use. */
NODISCARD int relay_open(const struct relay_config *config, struct relay **out, struct err *err);
/* Close all connections and wait for the thread's end. */
void relay_close(struct relay **relay);
/* Set the options of a TCP connection to or from a relay: no delay, detection of a vanished peer.
 */
void relay_set_up(int fd);
/* Return the actual address of the listener. */
const struct address *relay_address(const struct relay *relay);
/* Return the counters. Any thread. */
struct relay_counts relay_counts(const struct relay *relay);

#endif
