/* recipe.h: how a model is trained, as data: optimizer and learning rate. Used by schema (a job's fields) and libtrain
 * alike. Pure. */
#ifndef LIBTRAIN_MODEL_RECIPE_H
#define LIBTRAIN_MODEL_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum optimizer_type { OPTIMIZER_SGD };
extern const char *const optimizer_type_names[]; /* ends with NULL */

struct optimizer {
    int type;        /* enum optimizer_type */
    double momentum; /* [0, 1) */
    bool nesterov;
    double weight_decay; /* >= 0, added to the gradient (L2, as PyTorch's SGD does) */
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

/* The learning rate of `step` (from 1) out of total_steps: a pure function, in double. */
double learning_rate_at(const struct learning_rate *rate, int64_t step, int64_t total_steps);

/* Float arrays of optimizer state per parameter: 0 for sgd without momentum, 1 with. */
size_t optimizer_state_arrays(const struct optimizer *optimizer);

#endif
