/* pipeline.h: the strategy pipeline: the simulated counterpart of agent/pipeline around a real
 * pipeline core. For pipeline_work.c (the row and the compute thread) and pipeline_sender.c. */
#ifndef TESTS_SIM_PIPELINE_H
#define TESTS_SIM_PIPELINE_H

#include "agent/core/pipeline.h"
#include "agent/core/timing.h"
#include "tests/sim/mixer.h"
#include "tests/sim/run.h"

#define OUTGOING_MAX (2 * DIGEST_SLOTS_MAX + 2)

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

struct pipeline_run {
    struct pipeline *pipeline;
    uint64_t slot[TRANSFER_LANES][DIGEST_SLOTS_MAX];
    struct sender sender[2];
    struct pipeline_task task;
    int64_t task_running_us, step_began_us;
    int64_t idle_since_us; /* since when it has no task */
    uint64_t test_sum;
    uint64_t total; /* stage 0: of the step's gradients */
    struct timing timing;
    struct mixer *mixer; /* of a group that mixes; else NULL */
    bool settles;        /* it has stopped, and its records are not stored yet */
};

static inline struct pipeline_run *pipeline_of(const struct run *run)
{
    return run->work;
}

extern const struct run_row pipeline_row;

/* Code a tensor's digest by the codec of its link, or decode it: the same. Ends that disagree about
 * the codec come to another state. `outgoing`: at the sender. */
uint64_t run_code(const struct run *run, const struct transfer *transfer, bool outgoing,
                  uint64_t digest);
/* The codec of the link to that neighbour. */
enum codec run_codec(const struct run *run, enum direction direction);

/* Keep the state of a group that has stopped, once all records of its moves are stored. */
void pipeline_settled(struct world *world, struct run *run);

void sender_start(struct world *world, struct run *run, enum direction direction);
void sender_add(struct world *world, struct run *run, enum direction direction,
                const struct outgoing *outgoing);
void sender_cancel(struct world *world, struct run *run);

#endif
