/* run.h: what a device does for one generation: prepare, train, upload, wait to be cancelled; the
 * simulated counterpart of agent/generation, agent/build, agent/pipeline/stage_loop and
 * agent/pipeline/sender around a real pipeline core. */
#ifndef TESTS_SIM_RUN_H
#define TESTS_SIM_RUN_H

#include "agent/core/needs.h"
#include "agent/core/orders.h"
#include "agent/core/repeat.h"
#include "agent/core/slots.h"
#include "agent/core/trouble_list.h"
#include "tests/sim/agent.h"
#include "tests/sim/digest.h"
#include "tests/sim/outbox.h"

#define RUN_PEERS_MAX STAGES_MAX

enum run_state {
    RUN_WAITS,   /* for the run before to end */
    RUN_TUNES,   /* measures kernels, and does nothing else */
    RUN_DATA,    /* opens its data sets */
    RUN_UNITS,   /* takes its units from where the assignment says */
    RUN_PINGS,   /* its neighbours */
    RUN_TRAINS,  /* or waits for the assignment to ask for it */
    RUN_STOPPED, /* done; the stop mark and snapshots may still be on their way */
    RUN_ENDED,
};
extern const char *const run_state_names[];

/* One call that is repeated until it is answered for good. */
struct fetch {
    struct call *call;
    struct repeat repeat; /* of the call */
    bool repeating;       /* it has begun */
    size_t at;            /* which data set, unit or neighbour */
};

struct run {
    struct agent *agent;
    int64_t serial;
    struct assignment *assignment;
    const struct assignment_run *desired;
    struct run *previous;
    enum run_state state;
    bool cancelled, failed;
    struct orders orders;
    int64_t stopped_version;
    struct fetch fetch;
    struct trouble_list troubles;
    const struct run_row *row; /* of the job's strategy */
    void *work;                /* the row's; NULL: not made */
    bool published;            /* the work is made: it can be run and stopped */
    struct digest_stage stage; /* the units that the device keeps */
    struct outbox outbox;
    bool computing; /* a task, since task_began_us */
    int64_t task_began_us, fetch_began_us, fetched_us;
    int64_t moving_until_us; /* bytes of a body come or go until then */
    int64_t step;            /* the last one applied */
    int64_t bytes_moved;
    char kernels[KERNEL_TEXT_SIZE]; /* as measured */
};

/* How a device trains: one row for each strategy. */
struct run_row {
    struct needs_data (*needs)(const struct assignment_run *desired);
    /* List the peers that must be reachable. Return their count. */
    size_t (*peers)(const struct assignment_run *desired, const struct peer *out[RUN_PEERS_MAX]);
    /* Make run->work, and describe its arithmetic in run->stage. */
    int (*make)(const struct world *world, struct run *run, struct err *err);
    /* The units have their state: start what sends tensors. */
    void (*start)(struct world *world, struct run *run);
    /* Do the next task, if there is one and none is under way. */
    void (*go_on)(struct world *world, struct run *run);
    void (*follow)(struct run *run, const struct orders *orders);
    void (*take_rounds)(struct run *run, const struct round round[REPLICA_KINDS]);
    /* Mixes of a group: a new assignment; the last report is taken. NULL: it has none. */
    void (*mix)(struct world *world, struct run *run, const struct mix_duty *duty);
    void (*mixes_stored)(struct world *world, struct run *run);
    void (*measure)(struct run *run, struct heartbeat *out);
    /* End all calls and free run->work, if it was made. */
    void (*release)(struct world *world, struct run *run);

    /* ---- received tensors, as in agent/runtime/work.h; NULL: these do not come ---- */
    int64_t (*boundary)(const struct run *run, const struct transfer *transfer);
    enum transfer_verdict (*offer)(struct run *run, const struct transfer *transfer,
                                   struct slot_claim *claim);
    /* The body is here. false: the claim no longer counts. */
    bool (*take)(struct run *run, const struct transfer *transfer, struct slot_claim *claim,
                 uint64_t digest);
    void (*abandon)(struct run *run, const struct transfer *transfer,
                    const struct slot_claim *claim);
    void (*mark)(struct run *run, int64_t step);
    /* ---- or requests: messages of agent/core/exchange, copies of groups that mix; NULL: these
     * do not come ---- */
    void (*serve)(struct world *world, struct run *run, struct call *call);
    /* Its sender no longer waits for the answer. */
    void (*forget)(struct world *world, struct run *run, struct call *call);

    /* ---- for the checker ---- */
    /* Train one step of the whole model on one device that nothing disturbs. */
    void (*train_step)(struct digest_stage *stage, const struct reference_job *job, int64_t step);
    /* Evaluate a micro-batch likewise. */
    uint64_t (*test)(const struct digest_stage *stage, const struct reference_job *job,
                     uint64_t input);
    /* Whether this device reports the loss. */
    bool (*has_loss)(const struct run *run);
};
const struct run_row *run_row_of(enum job_strategy strategy);

/* Start a run of the assignment, which it takes. The run in *slot ends first; the new one replaces
 * it. */
void run_start(struct world *world, struct agent *agent, int64_t serial,
               struct assignment **assignment, struct run **slot);
void run_cancel(struct world *world, struct run *run);
bool run_ended(const struct run *run);
void run_free(struct world *world, struct run **run);
/* RUN, STOP, HOLD, RELEASE, AWAY, BACK, ROUNDS, UPLOAD. */
void run_tell(struct world *world, struct run *run, const struct session_action *action);
/* The body of the call, or of its answer, begins to move. */
void run_moves(const struct world *world, struct run *run, const struct call *call);
void run_measure(const struct world *world, struct run *run, struct heartbeat *out);

void run_report(struct world *world, const struct run *run, enum session_event_type type,
                int64_t version);
/* A try of the call has ended: what follows. source: of a call to a peer. */
struct repeat_next run_tried(struct world *world, struct run *run, struct repeat *repeat,
                             enum trouble_source source, const struct call *call);
/* The first error counts. */
void run_fail(struct world *world, struct run *run, const char *code, const char *text);
/* The run of this device with this serial, or one before it that still ends. NULL: it is gone. */
struct run *run_find(const struct agent *agent, int64_t serial);
/* Give everything back; what waits for it goes on. */
void run_release(struct world *world, struct run *run);
/* The work has ended at this version: keep it. */
void run_stop(struct world *world, struct run *run, int64_t version);

/* ---- fetch.c ---- */
void run_fetch(struct world *world, struct run *run, enum run_state state);
void run_fetch_cancel(struct world *world, struct run *run);
/* What was fetched is all here. */
void run_advance(struct world *world, struct run *run);

#endif
