/* member_parts.h: shared by member.c (memory, the control side), member_data.c (where data is),
 * member_ports.c (messages), member_loop.c (the compute thread), caller.c and
 * parameter_server_work.c (the row). For these only. */
#ifndef AGENT_PARAMETER_SERVER_MEMBER_PARTS_H
#define AGENT_PARAMETER_SERVER_MEMBER_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/core/timing.h"
#include "agent/parameter_server/member.h"
#include "agent/parameter_server/transfers.h"
#include "agent/runtime/samples.h"
#include "agent/runtime/tally.h"
#include "agent/runtime/task_clock.h"
#include "libtrain/train.h"

/* Maximum number of messages in a lane: pulls and pushes of a window, results, and a stage's
 * notices. */
#define MEMBER_LANE_MAX (EXCHANGE_WINDOW_MAX + EXCHANGE_RESULTS + 3)

struct member_lane {
    struct exchange_message item[MEMBER_LANE_MAX];
    size_t first, count;
    pthread_cond_t filled;
};

/* The place of a layer in the arenas of a libtrain stage, in floats. */
struct member_place {
    size_t first, count;                       /* parameters, sums of gradients */
    size_t statistics_first, statistics_count; /* of its unit, at the unit's first layer */
};

/* The layers [first, end) of the model in a libtrain stage. */
struct member_arena {
    struct train_stage *train; /* NULL: the device has no such stage */
    float *parameters;         /* of `train`; other threads must not read them during an update */
    size_t first, end;
    struct member_place *place; /* [end - first] */
    size_t floats;              /* of all of them */
};

enum member_pull_state { PULL_NONE, PULL_PARKED, PULL_ANSWERED };
/* The first handle of requests by this device itself. */
#define MEMBER_OWN_PULLS MEMBER_PULLS_MAX
#define MEMBER_HANDLES (MEMBER_OWN_PULLS + EXCHANGE_WINDOW_MAX)

struct member {
    struct work work;            /* first: the row's functions get a pointer to it */
    struct assignment_run *run;  /* a copy without JSON */
    const struct job_spec *spec; /* the keeper's, as the next one */
    struct cancel *cancel;
    size_t index, count, servers;
    struct reduce_range share;
    struct exchange_block *block;    /* [blocks] of the plan */
    size_t blocks, first_block;      /* the first one of this worker */
    size_t layers;                   /* of the model */
    struct member_arena kept, whole; /* as a server, as a worker */
    size_t evaluation_batches;
    int room_fd;

    /* buffers */
    float **sum;          /* server: [blocks] contributions; the first is the gradient */
    const float **pushed; /* worker: [blocks] the sums of its blocks */
    size_t summing;       /* worker: the block whose backward pass runs */
    double *losses;       /* lead: [micro_batches] of the step */
    double *own_losses;   /* worker: the same of its share */
    double *results;      /* lead: [evaluation_batches][tally_numbers] */
    double *own_results;  /* worker: [EXCHANGE_RESULTS][tally_numbers] */
    double norm_in, norm_out, total_in, total_out;
    struct tally *tally; /* lead */
    size_t numbers;      /* tally_numbers */

    /* the compute thread's */
    struct samples *samples; /* worker */
    struct transfers *transfers;
    unsigned char *input; /* of a micro-batch */
    int32_t *labels;
    bool sums_held; /* libtrain still has the sums of the last step */
    double step_began_seconds;
    double pass_seconds, pass_stopped_seconds; /* of the current pass, as in a timing_task */
    size_t segments[2], told[2];               /* push, pull: of the step; those reported */
    struct task_clock clock;
    /* Bytes that may still arrive before the next task. More bytes are repeats and no progress. */
    atomic_int_least64_t moves_left;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* something changed for the compute thread */
    pthread_cond_t moved;   /* for callers that wait for sums, or for an answer of this device */
    struct exchange *exchange;
    struct member_lane lane[MEMBER_LANES];
    struct {
        enum member_pull_state state;
        enum exchange_verdict verdict;
    } pull[MEMBER_HANDLES];
    struct timing timing;
    struct timing_transfers links;
    double pull_began_seconds; /* of the step's first pull; 0: it is not measured */
    double push_began_seconds; /* of the step's last backward pass */
    double push_seconds;       /* of a step that was not reported yet */
    int64_t pushed_step;       /* that step; 0: none */
    struct callers *callers;   /* of its row; NULL: not started */
};

static inline bool member_is_lead(const struct member *member)
{
    return member->index == 0;
}

static inline bool member_works(const struct member *member)
{
    return member->share.first < member->share.end;
}

/* Hand out messages and answers after a change of the protocol's state, and wake waiting threads.
 * Under the lock. */
void member_settle(struct member *member);

#endif
