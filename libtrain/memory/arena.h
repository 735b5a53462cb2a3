/* arena.h: the memory plan of a stage: the place of every tensor, computed before the first step.
 *
 * Tensors that backward needs live in an activation slot, one slot per micro-batch in flight.
 * Tensors that live within one call (activations without a later reader, gradients between ops,
 * recomputed activations) use gaps in the slot, or a workspace that all calls share. Ops that can
 * work in place do.
 *
 * libtrain/stage allocates by this plan and memory_of_stage counts it, so both report the same
 * bytes. Offsets are multiples of WORKSPACE_ALIGNMENT. Pure; immutable once made. */
#ifndef LIBTRAIN_MEMORY_ARENA_H
#define LIBTRAIN_MEMORY_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/kernels/conv2d_kernel.h"
#include "libtrain/kernels/workspace.h"
#include "libtrain/model/model.h"
#include "libtrain/model/recipe.h"

#define ARENA_MICRO_BATCH_MAX 65536u

enum arena_area {
    ARENA_NOWHERE,     /* no memory */
    ARENA_SLOT,        /* in the micro-batch's slot: may live from forward to backward */
    ARENA_WORKSPACE,   /* in the workspace: lives within one call */
    ARENA_STAGE_INPUT, /* tensors of the caller */
    ARENA_OUTPUT_GRADIENT,
    ARENA_INPUT_GRADIENT,
};

struct arena_place {
    enum arena_area area;
    uint64_t offset; /* bytes, in SLOT and WORKSPACE */
};

/* Ops that are fused: a batch_norm computes the relu or relu6 that is its only reader. */
enum arena_fusion { ARENA_ALONE, ARENA_WITH_NEXT, ARENA_DONE_BEFORE };

/* Where an op reads and writes in one pass. Equal places mean that it works in place (flatten: does
 * nothing). */
struct arena_io {
    struct arena_place input[MODEL_OP_INPUTS_MAX], output;
    struct arena_place saved; /* statistics of batch-norm and layer-norm, winners of max-pool */
};

/* One op of the stage. */
struct arena_op {
    const struct op *op;
    uint16_t unit;  /* in the model */
    uint16_t index; /* of the op in the unit */
    enum arena_fusion fusion;
    bool again; /* recomputed before the backward of its unit, in the places of `backward` */
    struct conv2d_kernels kernels; /* CONV2D: all chosen, none by shape */
    struct shape input_shape[MODEL_OP_INPUTS_MAX];
    struct arena_io forward, evaluate;
    struct arena_io backward;           /* input of backward; NOWHERE if it no longer exists */
    struct arena_place output_gradient; /* NOWHERE: it has no backward */
    struct arena_place input_gradient[MODEL_OP_INPUTS_MAX];
    bool accumulate[MODEL_OP_INPUTS_MAX];  /* add to the gradient that an earlier op wrote */
    bool frozen;                           /* its unit is frozen */
    uint64_t tensor[MODEL_OP_TENSORS_MAX]; /* first float of op->tensor[i]: parameters in the
                                              parameter arena and, if trained, in the gradient
                                              arena; buffers in the buffer arena */
};

/* Memory reserved in advance for planners that must not allocate: one plan at a time, enough for
 * any model. Only the pages that a plan needs are touched. */
struct arena_scratch;
NODISCARD int arena_scratch_new(struct arena_scratch **out, struct err *err);
void arena_scratch_free(struct arena_scratch **scratch);

struct arena {
    const struct model *model;     /* borrowed */
    struct arena_scratch *scratch; /* borrowed: holds the plan; NULL: the heap */
    size_t first, end, micro_batch;
    enum recompute recompute;
    enum conv2d_backend backend;
    struct arena_op *op; /* all ops of the stage's units, in order */
    size_t op_count;
    bool hands_back;  /* its input has a gradient: some unit before the stage is trained */
    bool scale_input; /* stage 0: stored samples are converted to floats first */
    bool scale_again; /* and again before the backward of the first unit */
    struct arena_place input,
        evaluate_input;             /* of the first op's unit: STAGE_INPUT unless scale_input */
    struct arena_place again_input; /* scale_again */
    struct arena_place output, evaluate_output;
    struct arena_place
        output_gradient; /* last stage: SLOT, the loss's gradient; else OUTPUT_GRADIENT */
    uint64_t parameter_floats, buffer_floats;
    uint64_t trained_floats; /* trained parameters, which come first */
    uint64_t turn_floats;    /* follow the gradients: transposed scratch for the largest tensor of a
                                frozen unit */
    uint64_t slot_bytes;     /* of one slot */
    uint64_t tensor_bytes;   /* of the workspace */
    uint64_t shared_bytes;   /* kernels' scratch shared by all threads */
    uint64_t worker_bytes;   /* kernels' scratch per thread */
    uint64_t packed_bytes;   /* weights in the backend's layouts */
};

/* The request: units [first, end) for micro-batches of `micro_batch` samples. */
struct arena_request {
    size_t first, end, micro_batch;
    enum recompute recompute;
    enum conv2d_backend backend;   /* of the device */
    struct arena_scratch *scratch; /* memory for the plan; NULL: the heap */
};
/* Plan the memory of a stage. The caller frees *out before the scratch. ERR_INVALID for an empty
 * range, units the model does not have or a micro_batch outside [1, ARENA_MICRO_BATCH_MAX];
 * ERR_MEMORY, never with a scratch. */
NODISCARD int arena_new(const struct model *model, const struct arena_request *request,
                        struct arena **out, struct err *err);
void arena_free(struct arena **arena);
#define ARENA_AUTO AUTO(arena_free)

#endif
