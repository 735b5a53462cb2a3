/* waiting.h: requests of peers that wait until what they ask for is there: for how long, and when
 * the first one has waited long enough. By the place of a request among those of its routes. The
 * receiver's thread. */
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

/* The request waits from now on, at most park_ms; 0: the most that any may. */
void waiting_begin(struct waiting *waiting, size_t at, int64_t park_ms);
/* It waits no more; it may not have waited. */
void waiting_end(struct waiting *waiting, size_t at);
/* Return the seconds that it has waited; 0: it does not. */
double waiting_seconds(const struct waiting *waiting, size_t at);
/* Return whether its time is over. */
bool waiting_is_over(const struct waiting *waiting, size_t at);
/* Return when the first one has waited long enough, for a poll: -1 for never. */
int waiting_timeout_ms(const struct waiting *waiting);

#endif
