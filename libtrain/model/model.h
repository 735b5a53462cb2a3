/* model.h: a model as data. A model is a chain of units. A unit is a small acyclic graph of ops
 * with one input and one output, so every boundary between units can be a stage boundary. Chains,
 * residuals and branches are all one list of ops with input indices. libtrain/description makes
 * models; they are immutable afterwards, and any thread may read them. Used by libtrain, the
 * coordinator and the tools. No arithmetic on tensors here. */
#ifndef LIBTRAIN_MODEL_MODEL_H
#define LIBTRAIN_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/record.h"
#include "libtrain/formats/dtype.h"
#include "libtrain/formats/names.h"
#include "libtrain/formats/reading.h"
#include "libtrain/model/kernel_names.h"
#include "libtrain/model/recipe.h"
#include "libtrain/model/shape.h"

#define MODEL_NAME_MAX 64
#define MODEL_UNITS_MAX 256
#define MODEL_UNIT_OPS_MAX 64
#define MODEL_OPS_MAX 4096 /* of all units: bounds the time of planning */
#define MODEL_OP_INPUTS_MAX 8
#define MODEL_OP_TENSORS_MAX 4
#define MODEL_OP_NAME_MAX 96
#define MODEL_ELEMENTS_MAX (1u << 26)    /* of one activation of one sample, and of one parameter */
#define MODEL_ACTIVATIONS_MAX (1u << 28) /* elements of all activations of one sample */
#define MODEL_PARAMETERS_MAX (1u << 30)  /* elements of all parameters and buffers */
#define MODEL_TENSORS_MAX (1u << 13)     /* bounds the exported file's header */
#define MODEL_WINDOW_MAX 64              /* kernel, stride and padding */
#define MODEL_POSITIONS_MAX 32767 /* of a sequence: those of the largest micro-batch fit an int */
#define MODEL_DESCRIPTION_BYTES_MAX (1u << 20)

enum op_type {
    OP_CONV2D,
    OP_LINEAR,
    OP_BATCH_NORM,
    OP_RELU,
    OP_RELU6,
    OP_MAX_POOL,
    OP_AVG_POOL,
    OP_GLOBAL_AVG_POOL,
    OP_FLATTEN,
    OP_DROPOUT,
    OP_LAYER_NORM, /* over the channels of each position */
    OP_GELU,       /* exact: x times the normal distribution function */
    OP_SILU,       /* x sigmoid(x) */
    OP_EMBEDDING,  /* token numbers to rows of its weight; its input is the model's */
    OP_POSITIONS,  /* adds a learned vector to each position */
    OP_ATTENTION,  /* of q, k and v, side by side in the channels */
    OP_SELECT,     /* a range of its input's channels */
    OP_ADD,    /* from here on: made of a unit's body and shortcut, not written in descriptions */
    OP_CONCAT, /* along channels */
};
extern const char *const
    op_type_names[]; /* the description's words ("conv2d", "batch_norm", ...); ends with NULL */

/* The part of its unit that an op was written in, for names of ops and for writing descriptions. */
enum op_part {
    OP_PART_OPS,
    OP_PART_BODY,
    OP_PART_SHORTCUT,
    OP_PART_BRANCH,
    OP_PART_JOIN, /* the ADD or CONCAT that a residual or branches imply */
    OP_PART_THEN,
};

enum tensor_role { TENSOR_PARAMETER, TENSOR_BUFFER };

/* A tensor that an op owns, in PyTorch's layout. */
struct op_tensor {
    const char *suffix; /* static: "weight", "bias", "running_mean", "running_var" */
    enum tensor_role role;
    size_t rank;
    uint32_t dim[4]; /* convolution O, I/groups, KH, KW; linear O, I; embedding rows, C; positions
                        T, C; others C */
    size_t elements;
};

struct op {
    enum op_type type;
    enum op_part part;
    uint16_t branch;              /* OP_PART_BRANCH: its index */
    char name[MODEL_OP_NAME_MAX]; /* prefix of its tensors: "stem.0", "block1.body.3"; a select does
                                     not count */
    uint16_t input[MODEL_OP_INPUTS_MAX]; /* tensors of the unit: 0 = the unit's input, k + 1 =
                                            output of op k (k < this op) */
    size_t input_count;
    struct shape in; /* of input[0] */
    struct shape out;
    struct shape flat_from; /* LINEAR: the H x W x C that its input was flattened from (1 x 1 x F if
                               not flattened). PyTorch flattens C, H, W, we H, W, C, so import and
                               export permute its columns. It may come from an earlier unit. */
    struct extent kernel, stride, padding; /* CONV2D, pools: the window; symmetric zero padding
                                              (max: ignored, avg: counted, PyTorch's default) */
    uint32_t groups;                       /* CONV2D */
    struct conv2d_kernels kernels; /* CONV2D: as the description states, else CONV2D_BY_SHAPE */
    bool ceil_mode; /* pools: a last window may extend beyond the padding if it starts in the input
                       or the padding before it */
    bool bias;      /* CONV2D, LINEAR */
    double epsilon, momentum; /* BATCH_NORM: 1e-5, 0.1; LAYER_NORM: 1e-5, none */
    double rate;              /* DROPOUT: probability of a zero, [0, 1) */
    uint32_t rows;            /* EMBEDDING: token numbers are below it */
    uint32_t heads;           /* ATTENTION: they share its channels equally */
    bool causal;              /* ATTENTION: a position attends to itself and earlier ones */
    uint32_t first;           /* SELECT: the channel of the input that is channel 0 of the output */
    struct op_tensor tensor[MODEL_OP_TENSORS_MAX];
    size_t tensor_count;
};

struct unit {
    char name[MODEL_NAME_MAX];
    struct shape in, out;
    struct op *op; /* the last op's output is the unit's output */
    size_t op_count;
    size_t branch_count; /* of `branches`, an empty one included; else 0 */
    bool frozen; /* its parameters and buffers do not change, and it computes as in evaluation */
};

struct model {
    char name[MODEL_NAME_MAX];
    struct shape input;
    enum dtype input_dtype; /* DTYPE_U8 or DTYPE_F32 */
    double input_scale;     /* x = scale * stored value, applied before the first unit */
    struct normalise
        input_normalise; /* then x = (x - mean) / std per channel; empty: not normalised */
    char input_reading[READING_TEXT_MAX]; /* how samples are made from files (reading_write); "":
                                             not stated */
    uint32_t classes; /* channels of the last unit's output (softmax cross-entropy over them) */
    uint32_t
        positions; /* of the last unit's output, each with a label: 1, or those of a sequence */
    struct name_list
        class_names; /* of the first classes (class_names.h); empty: not known; owned */
    double
        label_smoothing; /* of the loss, [0, 1): the part of the target spread over all classes */
    struct unit *unit;
    size_t unit_count;
};

void model_free(struct model **model);
/* Normalise the input of a model that is not shared yet, with a job's mean and std for each
 * channel; no numbers change nothing. A fault at /input/mean if the description states other
 * numbers, or the input is tokens, which are read as stored. ERR_INVALID with faults, which may be
 * NULL. */
NODISCARD int model_normalise(struct model *model, const struct normalise *normalise,
                              struct record_faults *faults, struct err *err);
/* Properties of a data set's samples in addition to their shape. */
struct model_samples {
    const struct name_list *class_names; /* empty: not known */
    const char *reading;                 /* reading_write; "": not known */
};
/* Store the properties of the training data set's samples in a model that is not shared yet, unless
 * the description states them. A fault at /class_names if a number means another class, at
 * /input/reading if samples are made in another way. ERR_INVALID with faults, which may be NULL;
 * ERR_MEMORY. */
NODISCARD int model_take_samples(struct model *model, const struct model_samples *samples,
                                 struct record_faults *faults, struct err *err);
/* Return whether stored samples are converted to other numbers before the first unit. */
bool model_scales_input(const struct model *model);
/* Return whether the unit has trained parameters. */
bool model_trains(const struct model *model, size_t unit);
/* Return the first trained unit, or unit_count if there is none. The units before it need no
 * backward. */
size_t model_first_trained(const struct model *model);
/* Return whether the model has an op of that type. */
bool model_has(const struct model *model, enum op_type type);
/* Return whether the scores of a position depend only on it and the positions before it. */
bool model_is_causal(const struct model *model);

/* Return the first convolution of the units below `end` from (*unit, *op) on, and advance *unit and
 * *op past it. NULL: no more convolutions. */
struct op *model_next_convolution(const struct model *model, size_t end, size_t *unit, size_t *op);

#endif
