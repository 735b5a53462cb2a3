/* recipe.h: how a model is trained, as data: optimizer, learning rate, augmentation, recompute.
 * Used by schema (the fields of a job) and libtrain. Pure. */
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
    double weight_decay; /* >= 0. SGD, ADAM: L2, added to the gradient; ADAMW: subtracted from the
                            parameter, times the rate */
    double
        clip_value; /* each element of a gradient is clipped to [-clip_value, clip_value]; 0: off */
    double clip_norm; /* the gradients of the whole model are scaled to at most this Euclidean norm
                         (ADR 0036); 0: off */
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

/* The tensors that a stage keeps from forward to backward: all that backward reads, or only the
 * inputs and outputs of units. In the second case the backward of a unit first recomputes its
 * forward. The bits are the same. */
enum recompute { RECOMPUTE_NONE, RECOMPUTE_UNIT };
extern const char *const recompute_names[]; /* ends with NULL */

/* Return the learning rate of a job that states none. model: a name; zoo models that the
 * optimizer's usual rate does not suit have their own with `sgd` (ADR 0064). optimizer: enum
 * optimizer_type. */
double learning_rate_default(const char *model, int optimizer);
/* Return the learning rate of `step` (from 1) out of total_steps: a pure function, in double. */
double learning_rate_at(const struct learning_rate *rate, int64_t step, int64_t total_steps);

/* ---- augmentation: what happens to samples before the first unit ---- */

#define NORMALISE_CHANNELS_MAX 16
#define NORMALISE_MEAN_MAX 1e9 /* and -1e9 */
#define NORMALISE_STD_MIN 1e-9
#define NORMALISE_STD_MAX 1e9

/* Mean and std of each channel, in values after the input's scale. Both counts are 0 (no
 * normalisation) or the number of channels. */
struct normalise {
    double mean[NORMALISE_CHANNELS_MAX], std[NORMALISE_CHANNELS_MAX];
    size_t mean_count, std_count;
};

/* In the order of application. */
enum augment_type {
    AUGMENT_CROP,      /* training: a random window of the sample's size, drawn from the zero-padded
                          sample */
    AUGMENT_FLIP,      /* training: mirrored horizontally with probability 1/2 */
    AUGMENT_NORMALISE, /* training and evaluation: (x - mean) / std; becomes part of the model's
                          input (ADR 0039) */
};
#define AUGMENT_TYPES 3
extern const char *const augment_type_names[]; /* ends with NULL */
#define AUGMENT_PADDING_MAX 1024

struct augment {
    int type;                   /* enum augment_type */
    int64_t padding;            /* CROP: >= 1 */
    struct normalise normalise; /* NORMALISE */
};

/* Return the augmentation of that type, or NULL. */
const struct augment *augment_find(const struct augment *augment, size_t count,
                                   enum augment_type type);

/* ---- state and cost of an optimizer ---- */

/* A smaller epsilon could not compensate values that single precision flushes to zero in the
 * average of the squares. */
#define OPTIMIZER_EPSILON_MIN 1e-16
#define OPTIMIZER_ARRAYS_MAX 2
/* Return the number of float arrays of state, each as large as the parameters: sgd 0, with momentum
 * 1; adam and adamw 2. Adam's bias correction follows from the step and needs no state. */
size_t optimizer_state_arrays(const struct optimizer *optimizer);
/* Return the name of array `index`, the suffix of the parameter's name in a snapshot: "momentum",
 * "exp_avg", "exp_avg_sq". */
const char *optimizer_array_name(const struct optimizer *optimizer, size_t index);
/* Return the bytes that an update moves, in multiples of the parameters' bytes. */
size_t optimizer_update_passes(const struct optimizer *optimizer);

/* Return 1 - beta^step, step >= 1: the weight of all values in an average that started at zero
 * `step` values ago. */
double optimizer_bias_correction(double beta, int64_t step);

#endif
