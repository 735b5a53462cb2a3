/* model.h: a model as data. A description (JSON, see docs and libtrain/zoo) is read once into a
 * chain of units; a unit is a small acyclic graph of ops with one input and one output, so every
 * border between units is a possible partition point. Chains, residuals and branches are all
 * lowered to one list of ops with input indices. Immutable after description_parse; any thread may
 * read it. Used by libtrain, the coordinator and the tools. No arithmetic on tensors here.
 */
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
#define MODEL_OPS_MAX 4096 /* of all units: plans are made of them while others wait */
#define MODEL_OP_INPUTS_MAX 8
#define MODEL_OP_TENSORS_MAX 4
#define MODEL_OP_NAME_MAX 96
#define MODEL_ELEMENTS_MAX (1u << 26)    /* of one activation of one sample, and of one parameter */
#define MODEL_ACTIVATIONS_MAX (1u << 28) /* elements of all activations of one sample */
#define MODEL_PARAMETERS_MAX (1u << 30)  /* elements of all parameters and buffers */
#define MODEL_TENSORS_MAX                                                                          \
    (1u << 13) /* parameters and buffers: the exported file's header has to hold them */
#define MODEL_WINDOW_MAX 64       /* kernel, stride and padding */
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
    OP_GELU,       /* exact: x times the normal distribution's share below x */
    OP_SILU,       /* x sigmoid(x) */
    OP_EMBEDDING,  /* token numbers to rows of its weight; takes the model's input alone */
    OP_POSITIONS,  /* adds a learned vector to each position */
    OP_ATTENTION,  /* of q, k and v, which lie side by side in the channels */
    OP_ADD,
    OP_CONCAT, /* along channels */
};
extern const char *const
    op_type_names[]; /* the description's words ("conv2d", "batch_norm", ...), ends with NULL */

/* Which part of its unit an op was written in; description_write and op names need it. */
enum op_part {
    OP_PART_OPS,
    OP_PART_BODY,
    OP_PART_SHORTCUT,
    OP_PART_BRANCH,
    OP_PART_JOIN, /* the ADD or CONCAT that a residual or branches stand for */
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
    uint16_t branch;                     /* OP_PART_BRANCH: which one */
    char name[MODEL_OP_NAME_MAX];        /* prefix of its tensors: "stem.0", "block1.body.3" */
    uint16_t input[MODEL_OP_INPUTS_MAX]; /* tensors of the unit: 0 = the unit's input, k + 1 =
                                            output of op k (k < this op) */
    size_t input_count;
    struct shape in; /* of input[0] */
    struct shape out;
    struct shape
        flat_from; /* LINEAR: the H x W x C whose flattening is its input (1 x 1 x F where nothing
                      was flattened): PyTorch flattens C, H, W, we H, W, C, so import and export
                      permute its columns. May stem from an earlier unit. */
    struct extent kernel, stride, padding; /* CONV2D, pools: the window; zero padding on both sides
                                              (max: ignored, avg: counted as PyTorch's default) */
    uint32_t groups;                       /* CONV2D */
    struct conv2d_kernels
        kernels;    /* CONV2D: as the description says, by shape where it says nothing */
    bool ceil_mode; /* pools: a last window may reach beyond the padding, where it starts within the
                       input or the padding before it */
    bool bias;      /* CONV2D, LINEAR */
    double epsilon, momentum; /* BATCH_NORM: 1e-5, 0.1; LAYER_NORM: 1e-5, none */
    double rate;              /* DROPOUT: probability of a zero, [0, 1) */
    uint32_t rows;            /* EMBEDDING: token numbers are below it */
    uint32_t heads;           /* ATTENTION: they share its channels equally */
    bool causal;              /* ATTENTION: a position sees itself and what lies before it */
    struct op_tensor tensor[MODEL_OP_TENSORS_MAX];
    size_t tensor_count;
};

struct unit {
    char name[MODEL_NAME_MAX];
    struct shape in, out;
    struct op *op; /* the last op's output is the unit's output */
    size_t op_count;
    size_t branch_count; /* of `branches`, an empty one included; else 0 */
    bool frozen; /* its parameters and buffers stay as they are, and it computes as in evaluation */
};

struct model {
    char name[MODEL_NAME_MAX];
    struct shape input;
    enum dtype input_dtype; /* DTYPE_U8 or DTYPE_F32 */
    double input_scale;     /* x = scale * stored value, applied before the first unit */
    struct normalise
        input_normalise; /* then x = (x - mean) / std of its channel; no numbers: not */
    char input_reading[READING_TEXT_MAX]; /* how samples are made of files (reading_write); "": not
                                             stated */
    uint32_t classes; /* channels of the last unit's output (softmax cross-entropy over them) */
    uint32_t
        positions; /* of the last unit's output, each with a label: 1, or those of a sequence */
    struct name_list class_names; /* of the first classes (class_names.h); none: not known; owned */
    double label_smoothing; /* of the loss, [0, 1): the share of the target that all classes get
                               alike */
    struct unit *unit;
    size_t unit_count;
};

void model_free(struct model **model);
/* Normalise the input of a model that nobody shares yet, as a job asks for it: a mean and a std for
 * each of its channels, or no numbers, which change nothing. A fault at /input/mean where the
 * description states other numbers or the input are tokens, which are read as they are stored.
 * ERR_INVALID with faults, which may be NULL. */
NODISCARD int model_normalise(struct model *model, const struct normalise *normalise,
                              struct record_faults *faults, struct err *err);
/* What a data set says of its samples beside their shape. */
struct model_samples {
    const struct name_list *class_names; /* none: not known */
    const char *reading;                 /* reading_write; "": not known */
};
/* Keep what the data set that a model is trained on says of its samples, where the description does
 * not; nobody shares the model yet. A fault at /class_names where a number means another class, at
 * /input/reading where samples are made in another way. ERR_INVALID with faults, which may be NULL;
 * ERR_MEMORY. */
NODISCARD int model_take_samples(struct model *model, const struct model_samples *samples,
                                 struct record_faults *faults, struct err *err);
/* Whether what is stored is turned into other numbers before the first unit. */
bool model_scales_input(const struct model *model);
/* Whether the unit has parameters that training changes. */
bool model_trains(const struct model *model, size_t unit);
/* The first unit that does, unit_count when none does: those before it need no backward. */
size_t model_first_trained(const struct model *model);
/* Whether what it tells of a position follows from that position and those before it alone. */
bool model_is_causal(const struct model *model);

/* The first convolution of the units below `end` from (*unit, *op) on; *unit and *op move past it.
 * NULL: none is left. */
struct op *model_next_convolution(const struct model *model, size_t end, size_t *unit, size_t *op);

#endif
