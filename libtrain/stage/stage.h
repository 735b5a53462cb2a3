/* stage.h: the memory of a stage, shared by the files of this room and inspected by its tests.
 * Users include train.h. */
#ifndef LIBTRAIN_STAGE_STAGE_H
#define LIBTRAIN_STAGE_STAGE_H

#include "libtrain/backend/pool.h"
#include "libtrain/memory/arena.h"
#include "libtrain/memory/memory.h"
#include "libtrain/model/reduce.h"
#include "libtrain/state/state.h"
#include "libtrain/train.h"

struct onednn;
struct onednn_conv2d;

/* A micro-batch between forward and backward. */
struct stage_slot {
    struct train_position position;
    const void *input; /* the caller's, and the labels */
    const int32_t *labels;
};

/* A forward between its parts. What lives within one call stays in the workspace from part to part.
 */
struct stage_forward {
    bool begun;
    size_t slot;
    size_t op; /* the next one in arena->op */
};

/* One version of the trained parameters. */
struct stage_version {
    float *trained;    /* [trained_floats] */
    uint64_t contents; /* from 1, another number after every change: packed weights follow it */
};

/* The buffers that a backward adds to its gradient, layer by layer (reduction.h). */
struct stage_addition {
    size_t buffer[REDUCE_BLOCKS_MAX]; /* in order */
    size_t count;
    bool block, step; /* the sum is that of a block of the share, of the step */
};

/* Used by one thread at a time. arena->op[].tensor gives the places of tensors in the float
 * arrays. */
struct train_stage {
    struct train_stage_config config;
    struct arena *arena;
    struct compute compute;    /* its scratch is at the end of the workspace */
    struct memory_bytes bytes; /* sizes of the allocations below */
    float
        *parameter; /* [parameter_floats]: one version of the trained ones, then the frozen ones */
    float *stashed; /* [versions - 1][trained_floats]: the other versions */
    struct stage_version *ring; /* [versions] (versions.h) */
    float **averaged;           /* [versions] scratch of an aggregation */
    size_t latest;              /* in the ring */
    int64_t version;            /* of the state; followed only if several are kept */
    int64_t restarted;          /* the oldest version that may still be used */
    uint64_t contents;          /* of the version changed last */
    float *buffer;    /* [buffer_floats] as of the last update: saved, and read by evaluation */
    float *running;   /* [buffer_floats] advanced by each training forward and taken over by the
                         update, so a discarded step leaves no trace. With several versions one
                         array for each batch in flight, with a tree one for each micro-batch */
    float *gradients; /* [trained_floats], [turn_floats], and [trained_floats] for each sum that the
                         tree lets wait */
    float *gradient;  /* [trained_floats] of them: the one at work; zero between steps */
    float *optimizer_state;    /* [optimizer_state_arrays][trained_floats]; NULL without one, and
                                  of a worker */
    unsigned char *activation; /* in_flight slots */
    unsigned char *workspace;  /* tensors of one call */
    struct stage_slot *slot;   /* [in_flight] */
    struct stage_forward forward;
    struct state_layout **layout;         /* [end - first] */
    size_t *first_op;                     /* [end - first + 1] in arena->op */
    struct onednn *onednn;                /* NULL if it computes nothing */
    struct onednn_conv2d **onednn_conv2d; /* [arena->op_count], NULL if there is none */
    unsigned char *packed;                /* weights in its layouts */
    bool clipped;                         /* by train_clip, since the last update */
    struct reduce_sums sums;              /* REDUCTION_TREE: of the step's gradients */
    struct reduce_sum sum[REDUCE_BLOCKS_MAX];
    struct stage_addition addition;
    size_t gradient_buffer;    /* which one `gradient` is */
    bool summed;               /* it is the sum of the whole step */
    struct train_layer *layer; /* [layer_count] */
    size_t layer_count;
    size_t *op_layer; /* [arena->op_count] the layer that an op is computed with */
};

static inline const struct model *stage_model(const struct train_stage *stage)
{
    return stage->config.model;
}

static inline bool stage_is_last(const struct train_stage *stage)
{
    return stage->config.end == stage->config.model->unit_count;
}

#endif
