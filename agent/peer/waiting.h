/* waiting.h: requests of peers that wait until the requested data is available: how long each has
 * waited, and when the first one has waited long enough. A request is identified by its place among
 * those of its routes. The receiver's thread. */
#ifndef AGENT_PEER_WAITING_H
#define AGENT_PEER_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/peer/receive.h"

/* Zero: none waits. */
struct waiting {
    struct waiting_request {
        bool waits;
        double began_seconds;
        int64_t deadline_ms;
    } request[RECEIVES_MAX];
    size_t count; /* that wait */
};

/* Let the request wait from now on, at most park_ms; 0: the maximum for any request. */
void waiting_begin(struct waiting *waiting, size_t at, int64_t park_ms);
/* End the wait of a request, if it waits. */
void waiting_end(struct waiting *waiting, size_t at);
/* Return the seconds that the request has waited; 0: it does not wait. */
double waiting_seconds(const struct waiting *waiting, size_t at);
/* Return whether the request has waited long enough. */
bool waiting_is_over(const struct waiting *waiting, size_t at);
/* Return the timeout of a poll until the first request has waited long enough; -1: never. */
int waiting_timeout_ms(const struct waiting *waiting);

#endif
