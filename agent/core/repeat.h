/* repeat.h: calls of a generation that are retried until they get a final answer. It decides what
 * an answer means, whether and when the next try follows, and what a try shows about the peer. The
 * caller makes the calls and waits; this module decides. Pure.
 *
 * Where connections are kept, the first broken connection in a row is retried at once and not
 * reported, because a connection that was idle for too long breaks too. Whether an unreachable
 * neighbour is lost is the coordinator's decision, so senders never give up by themselves; a source
 * of units counts as gone when it has failed for peer_ms and is unreachable, since others may have
 * the unit. Calls to the coordinator are retried without a limit of their own, because a device
 * that prepares while the coordinator is away has done nothing wrong. The job's autonomy and the
 * deadline of the preparation end this wait. */
#ifndef AGENT_CORE_REPEAT_H
#define AGENT_CORE_REPEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/heartbeat.h"

enum repeat_kind {
    REPEAT_TENSOR,   /* to a neighbour */
    REPEAT_ALIVE,    /* a ping of a neighbour for which there is no tensor */
    REPEAT_REPLICA,  /* a snapshot to the neighbour: outbox_queue.h decides when it is sent again */
    REPEAT_CONTENT,  /* data sets and blobs of the coordinator */
    REPEAT_SNAPSHOT, /* of a peer */
    REPEAT_PING,     /* of a neighbour, before a generation is ready */
    REPEAT_PULL,     /* of parameters from a server */
    REPEAT_MIX,      /* of the copy of another group: it may not have heard of the match, nor of the
                        caller, yet */
};
#define REPEAT_KINDS 8

/* A sender that was idle for this long pings its neighbour. */
#define REPEAT_IDLE_MS 250

/* One call; with REPEAT_REPLICA all calls to the neighbour. */
struct repeat {
    enum repeat_kind kind;
    int64_t peer_ms; /* the assignment's: how long a source may fail, if the last try was broken */
    unsigned failures; /* of the network, in a row */
    int64_t wait_ms;   /* before the next try */
    bool failing;
    int64_t failing_since_ms;
};

void repeat_begin(struct repeat *repeat, enum repeat_kind kind, int64_t peer_ms);
/* Return the time without bytes after which a try ends with ERR_TIMEOUT. */
int64_t repeat_stall_ms(const struct repeat *repeat);
#define REPEAT_PARK_MS_MAX 2000
/* Return how long a tensor may wait at its receiver for a free slot. It is short enough that the
 * sender calls again before it sees a stall. */
int64_t repeat_park_ms(int64_t peer_ms);
/* Return the code of a status: 0; ERR_STATE: try again; ERR_STALE: the peer is in a newer
 * generation, or does not know the ticket; ERR_NOT_FOUND; ERR_PROTOCOL: anything else. Not for
 * REPLICA. */
int repeat_code(enum repeat_kind kind, int status);

struct repeat_try {
    int code; /* 0, ERR_NETWORK, ERR_TIMEOUT, repeat_code's; any other code is final */
    enum peer_trouble trouble; /* NETWORK, TIMEOUT */
    bool moved;                /* a part of the answer arrived */
    int64_t began_ms, now_ms;
};

/* What a try shows about the peer. A fault of this device (memory, disk) shows nothing. */
enum repeat_news { REPEAT_NOTHING, REPEAT_ANSWERED, REPEAT_IN_TROUBLE };

struct repeat_next {
    bool again;      /* after wait_ms; else the try's code is the call's */
    int64_t wait_ms; /* 0: at once */
    enum repeat_news news;
};

/* Note that a try has ended, and decide what follows. */
void repeat_tried(struct repeat *repeat, const struct repeat_try *tried, struct repeat_next *next);

#endif
