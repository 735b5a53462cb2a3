/* recipe.h: how a model is trained, as data: optimizer, learning rate, augmentation, what is
 * computed again. Used by schema (a job's fields) and libtrain alike. Pure. */
#ifndef LIBTRAIN_MODEL_RECIPE_H
#define LIBTRAIN_MODEL_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum optimizer_type { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW };
extern const char *const optimizer_type_names[]; /* ends with NULL */

struct optimizer {
    int type;            /* enum optimizer_type */
    double momentum;     /* SGD: [0, 1) */
    bool nesterov;       /* SGD */
    double beta1, beta2; /* ADAM, ADAMW: [0, 1), how much of the two averages is kept */
    double epsilon;      /* ADAM, ADAMW: [OPTIMIZER_EPSILON_MIN, 1] */
    double weight_decay; /* >= 0. SGD, ADAM: L2, added to the gradient; ADAMW: taken off the
                            parameter, times the rate */
    double clip_value; /* each element of a gradient is cut to [-clip_value, clip_value]; 0: not */
    double clip_norm;  /* the gradients of the whole model are shortened to this Euclidean norm (ADR
                          0036); 0: not */
};

enum learning_rate_type { LEARNING_RATE_CONSTANT, LEARNING_RATE_STEP, LEARNING_RATE_COSINE };
extern const char *const learning_rate_type_names[]; /* ends with NULL */

struct learning_rate {
    int type;             /* enum learning_rate_type */
    double value;         /* > 0 */
    int64_t warmup_steps; /* linear from value / warmup_steps to value */
    int64_t step_size;    /* STEP: steps between two drops */
    double gamma;         /* STEP: factor of a drop */
    double final_value;   /* COSINE: value at the last step */
};

/* What a stage keeps from forward to backward: everything that backward reads, or what goes into
 * and comes out of each unit, whose backward then runs its forward again first. The bits are the
 * same. */
enum recompute { RECOMPUTE_NONE, RECOMPUTE_UNIT };
extern const char *const recompute_names[]; /* ends with NULL */

/* The learning rate of a job that states none. model: a name; the models of the zoo that the
 * optimizer's usual rate does not suit have their own with `sgd` (ADR 0064). optimizer: enum
 * optimizer_type. */
double learning_rate_default(const char *model, int optimizer);
/* The learning rate of `step` (from 1) out of total_steps: a pure function, in double. */
double learning_rate_at(const struct learning_rate *rate, int64_t step, int64_t total_steps);

/* ---- what happens to samples on their way into the first unit ---- */

#define NORMALISE_CHANNELS_MAX 16
#define NORMALISE_MEAN_MAX 1e9 /* and -1e9 */
#define NORMALISE_STD_MIN 1e-9
#define NORMALISE_STD_MAX 1e9

/* Of each channel, in units behind the input's scale. No numbers: it is left as it is; else as many
 * as channels. */
struct normalise {
    double mean[NORMALISE_CHANNELS_MAX], std[NORMALISE_CHANNELS_MAX];
    size_t mean_count, std_count;
};

/* In the order in which they are applied. */
enum augment_type {
    AUGMENT_CROP, /* training: a window of the sample's size, drawn from the sample with a border of
                     zeros */
    AUGMENT_FLIP, /* training: left and right change places, with probability 1/2 */
    AUGMENT_NORMALISE, /* always: (x - mean) / std; becomes part of the model's input (ADR 0039) */
};
#define AUGMENT_TYPES 3
extern const char *const augment_type_names[]; /* ends with NULL */
#define AUGMENT_PADDING_MAX 1024

struct augment {
    int type;                   /* enum augment_type */
    int64_t padding;            /* CROP: >= 1 */
    struct normalise normalise; /* NORMALISE */
};

/* The one of a type, or NULL. */
const struct augment *augment_find(const struct augment *augment, size_t count,
                                   enum augment_type type);

/* ---- what an optimizer keeps and costs ---- */

/* Below, what single precision flushes to zero in the average of the squares could no longer be
 * made up for. */
#define OPTIMIZER_EPSILON_MIN 1e-16
#define OPTIMIZER_ARRAYS_MAX 2
/* Float arrays of state, each as large as the parameters: none for sgd without momentum, 1 with, 2
 * for adam and adamw. Adam's bias correction follows from the step: it needs no state. */
size_t optimizer_state_arrays(const struct optimizer *optimizer);
/* The name of array `index`, which stands behind the parameter's in a snapshot: "momentum",
 * "exp_avg", "exp_avg_sq". */
const char *optimizer_array_name(const struct optimizer *optimizer, size_t index);
/* How often an update goes over as many bytes as the parameters have. */
size_t optimizer_update_passes(const struct optimizer *optimizer);

/* 1 - beta^step, step >= 1: what an average that began at zero has seen of its values after so many
 * steps. */
double optimizer_bias_correction(double beta, int64_t step);

#endif
