/* op_table.h: the kernels of each op type, one row per type. Used by run.c. */
#ifndef LIBTRAIN_STAGE_OP_TABLE_H
#define LIBTRAIN_STAGE_OP_TABLE_H

#include "libtrain/stage/stage.h"

/* An op with everything it works on. The pointers are valid for this call. */
struct op_call {
    const struct arena_op *plan;
    const struct op *op;
    const struct compute *compute;
    size_t N; /* samples */
    const float *input[MODEL_OP_INPUTS_MAX];
    float *output; /* NULL: the caller's input, flattened, which is never written */
    void *saved;   /* NULL in evaluation */
    float *tensor[MODEL_OP_TENSORS_MAX];        /* parameters and buffers; NULL after the last */
    float *gradient[MODEL_OP_TENSORS_MAX];      /* of parameters; NULL in a frozen unit */
    const float *output_gradient;               /* backward */
    float *input_gradient[MODEL_OP_INPUTS_MAX]; /* backward; NULL: not wanted */
    struct onednn_conv2d *onednn; /* CONV2D with passes that oneDNN computes; else NULL */
    uint64_t contents;            /* of the parameters: another number after every change */
    uint64_t seed;
    struct train_position position;
    size_t micro_batch; /* samples of a full micro-batch: gives the position of this one in the
                           batch */
};

typedef void (*op_fn)(const struct op_call *call);

struct op_functions {
    op_fn forward;  /* training */
    op_fn evaluate; /* running statistics, no dropout, saves nothing */
    op_fn again;    /* the recompute pass: the output of forward (and its saved data, unless kept)
                       again */
    op_fn backward;
    op_fn backward_frozen; /* of evaluate: the input's gradient alone */
};

/* In a frozen unit, training evaluates and uses backward_frozen. */
struct op_functions op_functions(const struct arena_op *plan);

#endif
