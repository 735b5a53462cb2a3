/* exchange_task.h: the types of exchange.h: the configuration of a stage, the tasks of its compute
 * thread, and the progress of its generation. For the modules that exchange.h uses. Pure. */
#ifndef AGENT_CORE_EXCHANGE_TASK_H
#define AGENT_CORE_EXCHANGE_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/rounds.h"
#include "libtrain/model/reduce.h"
#include "schema/early_stop.h"

#define EXCHANGE_SERVERS_MAX 8
#define EXCHANGE_WINDOW_MAX 8 /* open requests of a worker and direction */
#define EXCHANGE_RESULTS 8    /* buffers of a worker for results of evaluations */
#define EXCHANGE_LAYERS_MAX 4096

/* Micro-batches of a step. A worker sends the sum of their gradients. */
struct exchange_block {
    size_t stage;
    struct reduce_range range;
};

struct exchange_config {
    size_t index, count;                    /* this stage; all stages, at most STAGES_MAX */
    size_t servers;                         /* the first ones; stage 0 is the lead */
    size_t layer_end[EXCHANGE_SERVERS_MAX]; /* one past the last layer of each; a server may keep
                                               none */
    size_t micro_batches;                   /* of a step */
    const struct exchange_block *block;     /* [blocks], in order of their micro-batches, those of
                                               a stage in a row; copied */
    size_t blocks;
    int64_t resume_version;             /* the state the stage starts from */
    int64_t total_steps;                /* the last step of the job */
    int64_t evaluate_every;             /* steps between two evaluations; 0: never */
    size_t evaluation_batches;          /* micro-batches of an evaluation; 0: never */
    bool clips_norm;                    /* every update waits for the total */
    bool judges;                        /* evaluations may end the job */
    struct stop_rule stop;              /* by this rule, */
    struct early_stop judged;           /* after these evaluations */
    int64_t round_every[REPLICA_KINDS]; /* lead: steps between rounds; 0: never */
    int64_t checkpoint_every;           /* the same between rounds of checkpoints */
};

/* Requests in one direction. None spans two servers. */
struct exchange_requests {
    const size_t *end; /* [count] one past the last layer of each, rising */
    size_t count;
};

/* The requests of a worker's step. Borrowed for the call. */
struct exchange_segments {
    struct exchange_requests pull;
    struct exchange_requests push[REDUCE_BLOCKS_MAX]; /* by block of its share; the last is sent
                                                         first */
    size_t window; /* requests of a direction that may be open, 1 to EXCHANGE_WINDOW_MAX */
    bool streams;  /* a push begins with its first final layer (exchange_sendable); layers of a pull
                      are used as they come */
};

/* The progress of the generation, as known to this stage. */
struct exchange_course {
    int64_t version;      /* server: applied here; others: applied by some server */
    int64_t committed;    /* server: at most one step ahead of it */
    int64_t stop_version; /* INT64_MAX while not known */
};

static inline bool exchange_course_ends(const struct exchange_course *course)
{
    return course->stop_version != INT64_MAX;
}

enum exchange_work {
    EXCHANGE_WAIT,
    EXCHANGE_BEGIN,    /* worker: choose the segments: exchange_begin. After the last step: of an
                          evaluation, which pulls only */
    EXCHANGE_FORWARD,  /* worker: layers [first, end) of a micro-batch; a first one takes several */
    EXCHANGE_BACKWARD, /* worker: all layers of a micro-batch; adds to the sum of its block */
    EXCHANGE_EVALUATE, /* worker */
    EXCHANGE_ADD,      /* server: add the sum in block `right` to that in `block`: siblings */
    EXCHANGE_SUM,      /* server: add its squares to NORM (last server: to 0); lead: the total */
    EXCHANGE_TOTAL,    /* server: pass on the total */
    EXCHANGE_UPDATE,   /* server: statistics, update, snapshot */
    EXCHANGE_JUDGE,    /* lead: add the results of the evaluation in order, and judge them */
    EXCHANGE_STOP,     /* the state is version `step`, for good; discard the step in progress */
};

/* Why the stage has no task. */
enum exchange_wait {
    EXCHANGE_WAITS_FOR_ORDERS,     /* it does not run, is held or has stopped */
    EXCHANGE_WAITS_FOR_PARAMETERS, /* worker */
    EXCHANGE_WAITS_FOR_ROOM,       /* a buffer is still being sent */
    EXCHANGE_WAITS_FOR_BLOCKS,     /* server: contributions, or the commit */
    EXCHANGE_WAITS_FOR_NORM,
};

/* A task with the buffers that it uses; other fields are 0. */
struct exchange_task {
    enum exchange_work work;
    int64_t step;                  /* EVALUATE, JUDGE and STOP: the version */
    size_t micro_batch;            /* EVALUATE: of the evaluation */
    size_t first, end;             /* FORWARD */
    size_t block;                  /* BACKWARD, ADD */
    size_t right;                  /* ADD */
    size_t buffer;                 /* EVALUATE: of the result */
    bool block_begins, block_ends; /* BACKWARD: a first or last micro-batch of its block */
    double value;                  /* JUDGE: the metric, from the owner, before
                                      exchange_done */
    struct round_mark mark;        /* UPDATE: take a snapshot for it */
    bool opens_round;              /* UPDATE: the lead has opened a round for this step */
};

#endif
