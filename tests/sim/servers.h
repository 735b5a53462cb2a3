/* servers.h: the strategy parameter_server around a real exchange core (agent/core/exchange). For
 * servers_work.c (the row and the compute thread), servers_plan.c, servers_receive.c (requests of
 * others), servers_sender.c (requests to others) and check_servers.c. A device that is worker and
 * server has parameters of its own in each role: they travel by messages to itself, without a
 * network. */
#ifndef TESTS_SIM_SERVERS_H
#define TESTS_SIM_SERVERS_H

#include "agent/core/exchange.h"
#include "agent/core/timing.h"
#include "tests/sim/run.h"
#include "tests/sim/servers_digest.h"

#define SERVERS_INCOMING_MAX 256
/* Requests in both directions, results, numbers, and a commit for each stage. */
#define SERVERS_OUTGOING_MAX (2 * EXCHANGE_WINDOW_MAX + EXCHANGE_RESULTS + 2 + STAGES_MAX)

/* A request of another stage that has no answer yet. */
enum incoming_state {
    INCOMING_NONE,
    INCOMING_BODY,   /* its data is on its way, */
    INCOMING_STREAM, /* or is still being made by its sender */
    INCOMING_PARKED, /* until the server has that version */
    INCOMING_SERVED, /* parameters are being sent */
};
struct incoming {
    enum incoming_state state;
    struct call *call; /* held */
    struct exchange_claim claim;
    uint64_t handle;
};

/* A message that has no answer for good yet. */
struct outgoing_message {
    bool used, waiting; /* until the next try */
    bool ended;         /* no try follows */
    struct exchange_message message;
    struct call *call;
    struct repeat repeat;
};

/* A stage that this device calls. */
struct line {
    const struct assigned_stage *stage; /* NULL: it does not */
    struct call *call;                  /* a ping */
    struct repeat repeat;
    int64_t idle_since_us;
    size_t open; /* messages that have no answer */
};

struct servers_run {
    struct exchange *exchange;
    struct servers_layers layers;
    size_t layer_end[EXCHANGE_SERVERS_MAX];
    size_t servers, first, end; /* layers [first, end) of this one */
    size_t micro_batches, blocks;
    struct exchange_block block[DIGEST_MICRO_BATCHES_MAX];

    /* The compute thread. */
    struct exchange_task task;
    int64_t task_running_us, idle_since_us, step_began_us;
    int64_t half_us; /* when half of a backward pass that ends a block is over */

    /* Worker. */
    struct servers_arena arena;
    int64_t parameter_version[DIGEST_LAYERS_MAX]; /* in the arena; -1: none */
    int64_t statistic_version[DIGEST_LAYERS_MAX];
    struct servers_pass pass[DIGEST_MICRO_BATCHES_MAX];
    uint64_t sum[DIGEST_MICRO_BATCHES_MAX][DIGEST_LAYERS_MAX]; /* by block */
    uint64_t result[EXCHANGE_RESULTS];

    /* Server. */
    uint64_t received[DIGEST_MICRO_BATCHES_MAX][DIGEST_LAYERS_MAX];     /* sums by block */
    int64_t received_step[DIGEST_MICRO_BATCHES_MAX][DIGEST_LAYERS_MAX]; /* 0: free */
    struct servers_step whole;               /* the step's statistics, at last its sums */
    uint64_t state_before[DIGEST_UNITS_MAX]; /* while they are updated */
    uint64_t norm_in, norm_out, total_in, total_out;

    /* Lead. */
    uint64_t loss[DIGEST_MICRO_BATCHES_MAX], *tested, test_sum; /* [evaluation batches] */

    struct incoming incoming[SERVERS_INCOMING_MAX];
    uint64_t handles;
    struct outgoing_message outgoing[SERVERS_OUTGOING_MAX];
    struct line line[STAGES_MAX];
    struct timing timing;
    /* Of the forward pass of a micro-batch so far. */
    double pass_seconds, pass_stopped_seconds;
};

static inline struct servers_run *servers_of(const struct run *run)
{
    return run->work;
}

extern const struct run_row servers_row;

static inline bool servers_is_server(const struct run *run)
{
    return run->desired->first < run->desired->end;
}

/* Something has changed: answer, send and compute what is possible now. */
void servers_go_on(struct world *world, struct run *run);

/* ---- servers_plan.c: of struct run_row ---- */
struct needs_data servers_needs(const struct assignment_run *desired);
size_t servers_peers(const struct assignment_run *desired, const struct peer *out[RUN_PEERS_MAX]);
int servers_make(const struct world *world, struct run *run, struct err *err);

/* ---- servers_receive.c ---- */
void servers_serve(struct world *world, struct run *run, struct call *call);
void servers_forget(struct world *world, struct run *run, struct call *call);
/* Answer parked requests. */
void servers_answer(struct world *world, struct run *run);
/* More of a body was written at its sender. */
void servers_grow(struct world *world, struct call *call);
void servers_break(struct world *world, struct run *run);

/* ---- servers_sender.c ---- */
void servers_send(struct world *world, struct run *run);
void servers_start_lines(struct world *world, struct run *run);
void servers_end_calls(struct world *world, struct run *run);
/* The first layers of an answer (body->written) travel ahead. */
void servers_arrive(struct world *world, struct call *call);

/* ---- check_servers.c ---- */
/* A worker begins or ends a pass: its parameters are of that version, up to layer `end`. */
void check_arena(struct world *world, const struct run *run, int64_t version, size_t end,
                 bool statistics);
/* A server gives out its state of a unit as that version. */
void check_served(struct world *world, const struct run *run, size_t unit, int64_t version);
/* Data for a block's buffer has come: it holds no other step. */
void check_block(struct world *world, const struct run *run, size_t block, size_t layer,
                 int64_t step);
/* The sums that a task uses are of its step. */
void check_sums(struct world *world, const struct run *run, size_t block, int64_t step);
/* A server is about to update: every block is in the step. */
void check_blocks(struct world *world, const struct run *run, int64_t step);
/* A server has applied a step. */
void check_servers(struct world *world, const struct run *run);
/* A stage has stopped. */
void check_stopped(struct world *world, const struct run *run, int64_t version);

#endif
