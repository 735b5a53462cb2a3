/* pipeline_task.h: the types of pipeline.h: the configuration of a stage and the tasks of its
 * compute thread. For the modules that pipeline.h uses. */
#ifndef AGENT_CORE_PIPELINE_TASK_H
#define AGENT_CORE_PIPELINE_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/rounds.h"
#include "schema/early_stop.h"

struct pipeline_config {
    size_t index, count;       /* this stage; all stages */
    bool async;                /* steps overlap (schedule.h); micro_batches is 1 */
    bool strict;               /* strict order of work (schedule.h); always if async */
    size_t micro_batches;      /* of a step */
    size_t in_flight;          /* of this stage: gradient slots, activation buffers */
    size_t previous_in_flight; /* of the previous stage (stage 0: 0): activation slots, gradient
                                  buffers */
    int64_t resume_version;    /* the state the stage starts from */
    int64_t total_steps;       /* the last step of the job */
    int64_t evaluate_every;    /* steps between two evaluations; 0: never */
    size_t evaluation_batches; /* micro-batches of the test set; 0: never */
    bool clips_norm;           /* every update waits for the total */
    bool judges;               /* evaluations may end the job: each stage judges each of them */
    struct stop_rule stop;     /* by this rule, */
    struct early_stop judged;  /* after these evaluations */
    int64_t round_every[REPLICA_KINDS]; /* stage 0: steps between rounds; 0: never */
    int64_t checkpoint_every;           /* the same between rounds of checkpoints */
};

enum pipeline_work {
    PIPELINE_WAIT,
    PIPELINE_FORWARD,
    PIPELINE_BACKWARD,
    PIPELINE_SUM, /* add the stage's squares to LANE_NORM (last stage: to 0); stage 0: the total */
    PIPELINE_TOTAL, /* pass on the total of LANE_TOTAL */
    PIPELINE_UPDATE,
    PIPELINE_EVALUATE,
    PIPELINE_JUDGE, /* judge the metric, computed or from LANE_JUDGED, and pass it back */
    PIPELINE_LAST,  /* async: tell the next stage that `step` is the last one before a stop */
    PIPELINE_STOP,  /* the state is version `step`, for good */
};

/* Why the stage has no task. */
enum pipeline_wait {
    PIPELINE_WAITS_FOR_ORDERS,   /* the stage does not run, is held or has stopped */
    PIPELINE_WAITS_FOR_INPUT,    /* an activation, or the total of the squares */
    PIPELINE_WAITS_FOR_GRADIENT, /* or the sum of the squares, or the metric, of the next stage */
    PIPELINE_WAITS_FOR_ROOM,     /* the next output's buffer is still being sent */
};

/* A task with the slots and buffers that it uses; other fields are 0. */
struct pipeline_task {
    enum pipeline_work work;
    int64_t step; /* EVALUATE, JUDGE and STOP: the version */
    size_t micro_batch;
    size_t slot;  /* FORWARD, BACKWARD: the library's activation slot; stage 0: its input buffer */
    size_t input; /* the receive slot of the activation; BACKWARD frees it (not on stage 0) */
    size_t gradient; /* BACKWARD: the receive slot of the gradient (not on the last stage) */
    size_t output;   /* the send buffer: FORWARD, EVALUATE (not on the last stage), BACKWARD (not on
                        stage 0) */
    bool announce;   /* LAST, STOP: send the mark to the next stage */
    bool evaluation_ends;   /* EVALUATE: the last micro-batch */
    double value;           /* JUDGE: the metric, from the owner, before pipeline_done */
    struct round_mark mark; /* FORWARD: of the activation; UPDATE: take a snapshot for it */
    bool opens_round;       /* FORWARD: stage 0 has just opened a round for this step */
};

#endif
