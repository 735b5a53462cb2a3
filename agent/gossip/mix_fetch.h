/* mix_fetch.h: fetches one copy, or an average, from the group that a match names, again and again
 * until it is there or the match is over. A thread of the mixer. */
#ifndef AGENT_GOSSIP_MIX_FETCH_H
#define AGENT_GOSSIP_MIX_FETCH_H

#include "agent/gossip/mixer_parts.h"

struct mix_fetch {
    struct mixer_worker *worker; /* its note is that of the copy */
    struct mix_xid xid;
    size_t index; /* of the peer in the match */
    bool average; /* what the other group has computed, not its copy */
    int64_t deadline_ms;
    struct mix_source source;
    unsigned char *out; /* the floats */
    struct reach reach;
    struct http_call call;
    size_t at;                 /* bytes that have come, without the header */
    double seconds;            /* that they took */
    int64_t first_ms, last_ms; /* when the first and the last of them came; 0: none has */
    size_t after_first;        /* bytes that came after those of first_ms */
    struct err err;            /* ERR_FORMAT: what comes is no copy */
};

/* Not under the lock. Returns 0; ERR_FORMAT, ERR_PROTOCOL: what comes is no copy; ERR_CANCELLED;
 * else it cannot come, or nobody wants it any more. */
NODISCARD int mix_fetch_run(struct mix_fetch *fetch, struct err *err);
/* After mix_fetch_run: the bytes that came, with the header, and their seconds, whether or not the
 * copy is whole. false: too few to say how fast the link is. */
bool mix_fetch_measure(const struct mix_fetch *fetch, bool whole, double *bytes, double *seconds);
/* Under the lock: whether the match still waits for it. */
bool mix_fetch_is_open(const struct mix_fetch *fetch);

#endif
