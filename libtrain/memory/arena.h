/* arena.h: where every tensor of a stage lies, worked out before the first step: what backward
 * needs is kept per activation slot, once; what is needed within one call only (activations nobody
 * asks for again, gradients between ops, activations that are made again) lies where the slot is
 * not in use at that time, or in a workspace that all calls share; ops that can work in place do.
 * libtrain/stage follows this plan and memory_of_stage counts it, so both tell the same bytes.
 * Offsets are multiples of WORKSPACE_ALIGNMENT. Pure; immutable once made. */
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
    ARENA_NOWHERE,     /* not wanted */
    ARENA_SLOT,        /* of this micro-batch: may live from forward to backward */
    ARENA_WORKSPACE,   /* lives within one call */
    ARENA_STAGE_INPUT, /* the caller's tensors */
    ARENA_OUTPUT_GRADIENT,
    ARENA_INPUT_GRADIENT,
};

struct arena_place {
    enum arena_area area;
    uint64_t offset; /* bytes, in SLOT and WORKSPACE */
};

/* An op that another one does in its own passes: batch_norm does the relu or relu6 that is its only
 * reader. */
enum arena_fusion { ARENA_ALONE, ARENA_WITH_NEXT, ARENA_DONE_BEFORE };

/* Where an op works in one pass. Where two places are equal, it works in place (flatten: does
 * nothing). */
struct arena_io {
    struct arena_place input[MODEL_OP_INPUTS_MAX], output;
    struct arena_place saved; /* statistics of batch-norm and layer-norm, max-pool's winners */
};

/* One op of the stage. */
struct arena_op {
    const struct op *op;
    uint16_t unit;  /* in the model */
    uint16_t index; /* of the op in the unit */
    enum arena_fusion fusion;
    bool again; /* its forward runs once more before the backward of its unit, in the places of
                   `backward` */
    struct conv2d_kernels kernels; /* CONV2D: none of them by shape */
    struct shape input_shape[MODEL_OP_INPUTS_MAX];
    struct arena_io forward, evaluate;
    struct arena_io backward;           /* what is read; NOWHERE what is not there any more */
    struct arena_place output_gradient; /* NOWHERE: backward has nothing to do here */
    struct arena_place input_gradient[MODEL_OP_INPUTS_MAX];
    bool accumulate[MODEL_OP_INPUTS_MAX]; /* the gradient is added to what an earlier op wrote there
                                           */
    bool frozen;                          /* its unit is */
    uint64_t tensor[MODEL_OP_TENSORS_MAX]; /* first float of op->tensor[i]: parameters in the
                                              parameter arena and, those that are trained, in the
                                              gradient arena; buffers in the buffer arena */
};

/* Memory that was reserved before, for plans that must not allocate: one plan at a time, which fits
 * whatever the model is. Touched only as far as a plan needs it. */
struct arena_scratch;
NODISCARD int arena_scratch_new(struct arena_scratch **out, struct err *err);
void arena_scratch_free(struct arena_scratch **scratch);

struct arena {
    const struct model *model;     /* borrowed */
    struct arena_scratch *scratch; /* borrowed: where the plan lies; NULL: on the heap */
    size_t first, end, micro_batch;
    enum recompute recompute;
    enum conv2d_backend backend;
    struct arena_op *op; /* all ops of the stage's units, in order */
    size_t op_count;
    bool hands_back;  /* its input has a gradient: some unit before it is trained */
    bool scale_input; /* stage 0: stored samples are turned into floats first */
    bool scale_again; /* and once more before the backward of the first unit */
    struct arena_place input,
        evaluate_input;             /* of the first op's unit: STAGE_INPUT unless scale_input */
    struct arena_place again_input; /* scale_again */
    struct arena_place output, evaluate_output;
    struct arena_place
        output_gradient; /* last stage: SLOT, the loss's gradient; else OUTPUT_GRADIENT */
    uint64_t parameter_floats, buffer_floats;
    uint64_t trained_floats; /* parameters of units that are not frozen: they come first */
    uint64_t turn_floats;  /* behind the gradients: the largest tensor of a frozen unit, to turn its
                              layout in */
    uint64_t slot_bytes;   /* of one slot */
    uint64_t tensor_bytes; /* of the workspace */
    uint64_t shared_bytes; /* kernels' scratch for all threads */
    uint64_t worker_bytes; /* kernels' scratch per thread */
    uint64_t packed_bytes; /* weights in the layouts of the backend */
};

/* What is planned: units [first, end) for micro-batches of `micro_batch` samples. */
struct arena_request {
    size_t first, end, micro_batch;
    enum recompute recompute;
    enum conv2d_backend backend;   /* that computes it */
    struct arena_scratch *scratch; /* to plan in; NULL: the heap */
};
/* ERR_INVALID for an empty range, units the model does not have or a micro_batch outside [1,
 * ARENA_MICRO_BATCH_MAX]; ERR_MEMORY, never with a scratch. */
NODISCARD int arena_new(const struct model *model, const struct arena_request *request,
                        struct arena **out, struct err *err);
void arena_free(struct arena **arena);
#define ARENA_AUTO AUTO(arena_free)

#endif
