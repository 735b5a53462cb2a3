/* net.h: calls between actors over a network that loses, delays, reorders, doubles and cuts. A call
 * ends for its caller exactly once: answered, refused, broken or too late; what it did at the other
 * side is another matter. A device calls itself without a network. */
#ifndef TESTS_SIM_NET_H
#define TESTS_SIM_NET_H

#include "agent/core/exchange_message.h"
#include "agent/core/slots.h"
#include "coordinator/core/event.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"
#include "schema/problem.h"
#include "tests/sim/world.h"

enum call_type {
    CALL_ENROLL,
    CALL_BEAT,
    CALL_POLL,
    CALL_GET_BLOB,
    CALL_PUT_BLOB,
    CALL_PUT_AVERAGE, /* of groups that mix */
    CALL_GET_DATA,
    CALL_USER,
    CALL_PING, /* from here on between devices */
    CALL_GET_SNAPSHOT,
    CALL_PUT_TENSOR,
    CALL_PUT_REPLICA,
    CALL_EXCHANGE, /* a message of agent/core/exchange */
    CALL_GET_MIX,  /* the copy of another group, or its average */
    CALL_TYPES,
};
extern const char *const call_type_names[CALL_TYPES];

/* Between devices: whom the path and the ticket speak of. */
struct peer_request {
    struct device_id device; /* it is meant for */
    struct job_id job;
    int64_t generation;
    char ticket[TICKET_SIZE];
    int64_t version, unit;    /* GET_SNAPSHOT, PUT_REPLICA */
    char sha256[SHA256_SIZE]; /* PUT_REPLICA */
    int64_t bytes;            /* PUT_REPLICA */
    struct round_mark mark;   /* PUT_TENSOR: rounds of replication */
    struct transfer transfer;
    int64_t boundary;
    uint64_t digest; /* of the tensor */
    bool last;
    struct exchange_message message; /* EXCHANGE */
    struct mix_xid xid;              /* GET_MIX */
    bool average;                    /* GET_MIX */
};

struct servers_body;
struct mix_answer;
typedef void (*call_fn)(struct world *world, struct call *call);

struct call {
    enum call_type type;
    int from, to;
    int64_t from_life;
    call_fn done; /* at the caller, once; NULL: the answer is ignored */
    void *owner;
    int64_t number;      /* of the owner's */
    int64_t timeout_us;  /* without an answer: ERR_TIMEOUT */
    int64_t began_ms;    /* by the caller's clock */
    int64_t body_us;     /* how long its body, or the answer's, takes to arrive */
    int64_t transfer_us; /* of that: what the rate of the link takes, in which bytes do arrive */

    /* The request. */
    struct device_id device;
    char boot[ID_SIZE];
    struct enroll_request *enroll;
    struct heartbeat *heartbeat;
    uint64_t losses;               /* BEAT: how often the device had lost its memory by then */
    int64_t after, wait_ms;        /* POLL */
    struct center_unit unit;       /* PUT_BLOB; the hash of GET_BLOB, GET_DATA and PUT_AVERAGE */
    struct stored_average average; /* PUT_AVERAGE */
    bool empty;                    /* PUT_BLOB, PUT_REPLICA: "do you have these bytes?" */
    struct event *event;           /* USER */
    struct peer_request peer;
    struct servers_body *body; /* EXCHANGE: of the request, or of the answer */

    /* The answer. */
    int network;  /* 0, ERR_NETWORK, ERR_TIMEOUT */
    bool refused; /* with ERR_NETWORK: connection refused */
    int status;
    enum problem_code problem;
    char text[MESSAGE_SIZE];
    struct enroll_reply enrolled;
    struct heartbeat_reply beaten;
    struct assignment *assignment;
    struct job_id job;
    uint64_t digest;        /* of the blob or snapshot */
    struct mix_answer *mix; /* GET_MIX */

    /* net.c's */
    int references;
    bool delivered, answered, ended, doubled;
    bool waits;          /* in the socket of a frozen process */
    int64_t answered_us; /* when its body began to arrive, if it has one */
    struct call *next, *previous;
};

/* Probabilities in a million of each call. */
struct net_rates {
    int64_t lose_request, lose_answer; /* silently: the caller waits */
    int64_t break_request, break_answer;
    int64_t doubled;
    int64_t slow; /* this call takes slow_us longer at most: reordering */
    int64_t slow_us;
    int64_t delay_us, jitter_us; /* of every message */
};

struct net {
    struct net_rates rates;
    bool cut[ACTORS_MAX][ACTORS_MAX]; /* [from][to] */
    struct call *open;                /* all */
    struct call *spare;
    struct heartbeat *spare_heartbeat[16];
    size_t spare_heartbeats;
    struct assignment *spare_assignment[16];
    size_t spare_assignments;
};

int net_new(struct net **out, struct err *err);
void net_free(struct net **net);

/* An empty call, held by the caller until it has ended. */
struct call *net_call(struct world *world, enum call_type type, int from, int to);
void net_send(struct world *world, struct call *call);
/* How long an answered call took, by the caller's clock. */
double net_seconds(const struct world *world, const struct call *call);
/* The caller does not wait any longer; `done` does not come. */
void net_cancel(struct world *world, struct call *call);
/* The other side answers; the call holds its answer. A second answer is ignored. */
void net_answer(struct world *world, struct call *call, int status);
void net_problem(struct world *world, struct call *call, enum problem_code problem,
                 const char *text);
/* The connection breaks instead of an answer. */
void net_break(struct world *world, struct call *call);
/* The process of this actor has ended: who waits for it hears so, if its machine lives. */
void net_reset(struct world *world, int actor);

void net_hold(struct call *call);
void net_release(struct world *world, struct call *call);

/* Large messages are used again. Zeroed only as far as their users need it. */
struct heartbeat *net_heartbeat(struct world *world);
struct assignment *net_assignment(struct world *world);
void net_put_assignment(struct world *world, struct assignment **assignment);

#endif
