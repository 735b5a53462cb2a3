/* exchange_net.h: devices of one generation, joined by a network that delivers in any order, loses
 * requests, bodies and answers, repeats them, and delivers old ones once more. Digests take the
 * place of tensors (exchange_reference.h). After each event it checks what must always hold. For
 * the tests of core/exchange. */
#ifndef TESTS_UNIT_AGENT_CORE_EXCHANGE_NET_H
#define TESTS_UNIT_AGENT_CORE_EXCHANGE_NET_H

#include "agent/core/exchange.h"
#include "base/rng.h"
#include "tests/unit/agent_core/exchange_reference.h"

enum { NET_DEVICES = 5, NET_REQUESTS = 96, NET_OUTGOING = 32, NET_HANDLES = 1 << 14 };

/* A request under way. */
enum request_state {
    REQUEST_NONE,
    REQUEST_QUEUED, /* it has not arrived */
    REQUEST_BODY,   /* its data is being transferred, either way */
    REQUEST_PARKED,
    REQUEST_ANSWERED,
};
struct request {
    enum request_state state;
    struct exchange_message message;
    bool wanted; /* its sender waits for the answer; otherwise an old connection or a late repeat */
    struct exchange_claim claim;
    enum exchange_verdict verdict; /* ANSWERED */
    int64_t last;                  /* of LAST */
    size_t layer;                  /* of the body: the next one, from the top; of an answer: from
                                      the first */
    uint64_t handle;
    uint64_t pause; /* turns in which nothing happens to it */
    /* The data of a late repeat; others are read from the sender. */
    bool late;
    uint64_t data[REFERENCE_LAYERS], statistic[REFERENCE_MICRO][REFERENCE_LAYERS];
};

/* A message of a device that has no final answer yet. */
struct outgoing_message {
    bool used;
    struct exchange_message message;
    struct request *request; /* under way; NULL: it waits for the next try */
};

struct net_device {
    struct exchange *exchange;
    bool alive;
    struct orders orders;
    /* Worker and server share the arena: what the device keeps is of its own version. */
    struct reference_state arena;
    int64_t parameter_version[REFERENCE_LAYERS], statistic_version[REFERENCE_LAYERS];
    /* Worker. */
    struct reference_pass pass[REFERENCE_MICRO];
    uint64_t sum[REFERENCE_MICRO][REFERENCE_LAYERS]; /* by block */
    uint64_t result[EXCHANGE_RESULTS];
    /* Server. */
    uint64_t block[REFERENCE_MICRO][REFERENCE_LAYERS], statistic[REFERENCE_MICRO][REFERENCE_LAYERS];
    int64_t block_step[REFERENCE_MICRO][REFERENCE_LAYERS]; /* of which it is; 0: free */
    uint64_t norm_in, norm_out, total_in, total_out;
    /* Lead. */
    uint64_t loss[REFERENCE_MICRO], tested[REFERENCE_TESTS];
    /* The compute thread. */
    struct exchange_task task;
    struct reference_state before; /* the arena, while it is being updated */
    size_t layer;                  /* BACKWARD: from here on it is done */
    uint64_t pause;                /* turns in which it does nothing */
    bool busy, stopped;
    unsigned snapshot[REFERENCE_STEPS + 1]; /* by version: the rounds for which it was taken */
    struct outgoing_message outgoing[NET_OUTGOING];
};

struct exchange_net {
    const struct reference *job;
    struct exchange_config config; /* index is of no meaning */
    struct exchange_block block[REFERENCE_MICRO];
    struct reduce_range share[NET_DEVICES];
    struct net_device device[NET_DEVICES];
    struct request request[NET_REQUESTS];
    struct rng_stream random;
    uint64_t draws;
    uint64_t handles; /* parked so far */
    unsigned char answers[NET_HANDLES];
    bool forgotten[NET_HANDLES];
    size_t lost; /* the device that is lost; SIZE_MAX: none */
    bool failed; /* the generation did not end with a stop */
};

uint64_t net_draw(struct exchange_net *net, uint64_t bound);

/* A plan for the job drawn from the seed, with the state of the version. */
void net_start(struct exchange_net *net, const struct reference *job, uint64_t seed,
               int64_t version, const struct early_stop *judged);
/* When something happens, in turns; UINT64_MAX: never. */
struct net_course {
    uint64_t stop_turn;  /* the coordinator asks for a stop */
    uint64_t lose_turn;  /* a device that keeps no units is lost, then it asks for a stop */
    uint64_t crash_turn; /* the generation ends at once */
};
/* Play until all devices that are alive have stopped, or the generation fails. Returns the version;
 * after a crash the newest one of which all servers have a snapshot. *judged: the newest
 * evaluation. */
int64_t net_play(struct exchange_net *net, const struct net_course *course,
                 struct early_stop *judged);
void net_end(struct exchange_net *net);

/* ---- exchange_net_requests.c: requests on their way ---- */

struct request *net_request(struct exchange_net *net, const struct exchange_message *message);
/* Its sender no longer listens. */
void net_leave(struct exchange_net *net, struct request *request);
/* The receiver has answered. */
void net_answer(struct exchange_net *net, struct request *request, enum exchange_verdict verdict);
/* Go on with it, or lose it. */
void net_move(struct exchange_net *net, struct request *request);

/* ---- exchange_net_work.c: the compute threads ---- */

/* Begin, go on with or finish a task. */
void net_work(struct exchange_net *net, struct net_device *device);

#endif
