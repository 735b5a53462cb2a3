/* run.h: what a device does for one generation: prepare, train, upload, wait to be cancelled; the
 * simulated counterpart of agent/generation, agent/build, agent/pipeline/stage_loop and
 * agent/pipeline/sender around a real pipeline core. */
#ifndef TESTS_SIM_RUN_H
#define TESTS_SIM_RUN_H

#include "agent/core/orders.h"
#include "agent/core/pipeline.h"
#include "agent/core/repeat.h"
#include "agent/core/timing.h"
#include "agent/core/trouble_list.h"
#include "tests/sim/agent.h"
#include "tests/sim/digest.h"
#include "tests/sim/outbox.h"

#define OUTGOING_MAX (2 * DIGEST_SLOTS_MAX + 2)

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

/* A tensor on its way to a neighbour. */
struct outgoing {
    struct transfer transfer;
    uint64_t digest;
    size_t output;
    struct round_mark mark;
    bool last;
};

enum direction { TO_NEXT, TO_PREVIOUS };

struct sender {
    bool ended;
    struct outgoing item[OUTGOING_MAX];
    size_t first, count, capacity;
    struct call *call; /* of the first one, or a ping of an idle sender */
    struct repeat repeat;
    int64_t began_us;
    bool waiting;          /* until the next try */
    int64_t idle_since_us; /* while there is neither a tensor nor a call */
    bool idle_timer;       /* under way */
    struct timing_link link;
};

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
    struct pipeline *pipeline;
    bool published; /* the stage is built: it can be run and stopped */
    struct digest_stage stage;
    uint64_t slot[TRANSFER_LANES][DIGEST_SLOTS_MAX];
    struct sender sender[2];
    struct outbox outbox;
    bool computing;
    struct pipeline_task task;
    int64_t task_began_us, task_running_us, fetch_began_us, fetched_us;
    int64_t step, step_began_us;
    uint64_t test_sum;
    uint64_t total; /* stage 0: of the step's gradients */
    int64_t bytes_moved;
    struct timing timing;
    int64_t idle_since_us;          /* since when it has no task */
    char kernels[KERNEL_TEXT_SIZE]; /* as measured */
};

/* Start a run of the assignment, which it takes. The run in *slot ends first; the new one replaces
 * it. */
void run_start(struct world *world, struct agent *agent, int64_t serial,
               struct assignment **assignment, struct run **slot);
void run_cancel(struct world *world, struct run *run);
bool run_ended(const struct run *run);
void run_free(struct world *world, struct run **run);
/* RUN, STOP, HOLD, RELEASE, AWAY, BACK, ROUNDS, UPLOAD. */
void run_tell(struct world *world, struct run *run, const struct session_action *action);
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

/* ---- compute.c ---- */
/* Do the next task, if there is one and none is under way. */
void run_work(struct world *world, struct run *run);
/* Where a tensor goes that has come in. */
uint64_t *run_slot(struct run *run, const struct transfer *transfer, size_t slot);
int run_make_pipeline(const struct world *world, struct run *run, struct err *err);

/* ---- fetch.c ---- */
void run_fetch(struct world *world, struct run *run, enum run_state state);
void run_fetch_cancel(struct world *world, struct run *run);
/* What was fetched is all here. */
void run_advance(struct world *world, struct run *run);

/* ---- sender.c ---- */
/* Code a tensor's digest by the codec of its link, or decode it: the same. Ends that disagree about
 * the codec come to another state. `outgoing`: at the sender. */
uint64_t run_code(const struct run *run, const struct transfer *transfer, bool outgoing,
                  uint64_t digest);
/* The codec of the link to that neighbour. */
enum codec run_codec(const struct run *run, enum direction direction);

void sender_start(struct world *world, struct run *run, enum direction direction);
void sender_add(struct world *world, struct run *run, enum direction direction,
                const struct outgoing *outgoing);
void sender_cancel(struct world *world, struct run *run);

#endif
