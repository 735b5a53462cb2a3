/* mix_fetch.h: fetches one copy, or an average, from the group that a match names. It retries until
 * the fetch is complete or the match is over. Runs on a thread of the mixer. */
#ifndef AGENT_GOSSIP_MIX_FETCH_H
#define AGENT_GOSSIP_MIX_FETCH_H

#include "agent/gossip/mixer_parts.h"

struct mix_fetch {
    struct mixer_worker *worker; /* its note is that of the copy */
    struct mix_xid xid;
    size_t index; /* of the peer in the match */
    bool average; /* fetch the average that the other group has computed, not its copy */
    int64_t deadline_ms;
    struct mix_source source;
    unsigned char *out; /* the floats */
    struct reach reach;
    struct http_call call;
    size_t at;                 /* bytes received, without the header */
    double seconds;            /* that these bytes took */
    int64_t first_ms, last_ms; /* arrival of the first and the last of them; 0: none */
    size_t after_first;        /* bytes received after those of first_ms */
    struct err err;            /* ERR_FORMAT: the received data is not a copy */
};

/* Run the fetch. Not under the lock. Returns 0; ERR_FORMAT, ERR_PROTOCOL: the received data is not
 * a copy; ERR_CANCELLED; any other code: the copy cannot arrive, or is no longer wanted. */
NODISCARD int mix_fetch_run(struct mix_fetch *fetch, struct err *err);
/* Return, after mix_fetch_run, the received bytes with the header and their seconds, whether or not
 * the copy is whole. false: too few bytes to measure the link. */
bool mix_fetch_measure(const struct mix_fetch *fetch, bool whole, double *bytes, double *seconds);
/* Return whether the match still waits for this fetch. Under the lock. */
bool mix_fetch_is_open(const struct mix_fetch *fetch);

#endif
