#include "libtrain/model/recipe.h"

#include <string.h>

#include "base/assert.h"

const char *const optimizer_type_names[] = {
    [OPTIMIZER_SGD] = "sgd", [OPTIMIZER_ADAM] = "adam", [OPTIMIZER_ADAMW] = "adamw", NULL};
const char *const learning_rate_type_names[] = {[LEARNING_RATE_CONSTANT] = "constant",
                                                [LEARNING_RATE_STEP] = "step",
                                                [LEARNING_RATE_COSINE] = "cosine",
                                                NULL};
const char *const recompute_names[] = {[RECOMPUTE_NONE] = "none", [RECOMPUTE_UNIT] = "unit", NULL};

const char *const augment_type_names[] = {
    [AUGMENT_CROP] = "crop", [AUGMENT_FLIP] = "flip", [AUGMENT_NORMALISE] = "normalise", NULL};

const struct augment *augment_find(const struct augment *augment, size_t count,
                                   enum augment_type type)
{
    for (size_t i = 0; i < count; i++) {
        if (augment[i].type == (int)type) {
            return &augment[i];
        }
    }
    return NULL;
}

double learning_rate_default(const char *model, int optimizer)
{
    static const double usual[] = {
        [OPTIMIZER_SGD] = 0.01, [OPTIMIZER_ADAM] = 0.001, [OPTIMIZER_ADAMW] = 0.001};
    static const struct {
        const char *model;
        double rate;
    } sgd[] = {
        {"resnet50", 0.003}, /* with 0.01 the loss stays above that of guessing */
    };
    for (size_t i = 0; optimizer == OPTIMIZER_SGD && i < sizeof(sgd) / sizeof(sgd[0]); i++) {
        if (strcmp(sgd[i].model, model) == 0) {
            return sgd[i].rate;
        }
    }
    return usual[optimizer];
}

/* base ^ exponent, exponent >= 0, by squaring. */
static double power(double base, int64_t exponent)
{
    double result = 1.0;
    for (; exponent > 0; exponent >>= 1) {
        result = exponent & 1 ? result * base : result;
        base *= base;
    }
    return result;
}

/* sum of (-x2)^k / ((first + 1)...(first + 2k)), k = 0..9: cos(x) for first = 0, sin(x) / x for
 * first = 1. Taylor terms; for |x| <= pi / 4 the remainder is below 1e-18. */
static double taylor(double x2, int first)
{
    double sum = 1.0;
    for (int k = 9; k > 0; k--) {
        sum = 1.0 - sum * x2 / ((first + 2.0 * k - 1.0) * (first + 2.0 * k));
    }
    return sum;
}

/* Return cos(pi * part), part in [0, 1], to about 1e-15. The last bits of libm's cos differ between
 * versions and CPUs, but the learning rate must have the same bits everywhere. */
static double cosine_of_half_turn(double part)
{
    static const double pi = 3.14159265358979323846;
    double sign = part > 0.5 ? -1.0 : 1.0;
    double folded = part > 0.5 ? 1.0 - part : part;
    if (folded <= 0.25) {
        double x = pi * folded;
        return sign * taylor(x * x, 0);
    }
    double x = pi * (0.5 - folded);
    return sign * x * taylor(x * x, 1);
}

double learning_rate_at(const struct learning_rate *rate, int64_t step, int64_t total_steps)
{
    ASSERT(step >= 1);
    if (step <= rate->warmup_steps) {
        return rate->value * (double)step / (double)rate->warmup_steps;
    }
    int64_t done = step - rate->warmup_steps - 1; /* steps since the warm-up */
    switch ((enum learning_rate_type)rate->type) {
    case LEARNING_RATE_CONSTANT: return rate->value;
    case LEARNING_RATE_STEP: return rate->value * power(rate->gamma, done / rate->step_size);
    case LEARNING_RATE_COSINE: {
        int64_t last = total_steps - rate->warmup_steps - 1;
        double part = last <= 0 ? 0.0 : done >= last ? 1.0 : (double)done / (double)last;
        return rate->final_value +
               (rate->value - rate->final_value) * 0.5 * (1.0 + cosine_of_half_turn(part));
    }
    }
    return rate->value;
}

/* Names as in PyTorch's optimizer state. */
static const struct {
    size_t count;
    const char *name[OPTIMIZER_ARRAYS_MAX];
} arrays[] = {
    [OPTIMIZER_SGD] = {1, {"momentum"}},
    [OPTIMIZER_ADAM] = {2, {"exp_avg", "exp_avg_sq"}},
    [OPTIMIZER_ADAMW] = {2, {"exp_avg", "exp_avg_sq"}},
};

size_t optimizer_state_arrays(const struct optimizer *optimizer)
{
    bool plain = optimizer->type == OPTIMIZER_SGD && optimizer->momentum <= 0;
    return plain ? 0 : arrays[optimizer->type].count;
}

const char *optimizer_array_name(const struct optimizer *optimizer, size_t index)
{
    ASSERT(index < optimizer_state_arrays(optimizer));
    return arrays[optimizer->type].name[index];
}

size_t optimizer_update_passes(const struct optimizer *optimizer)
{
    size_t passes = 3 + 2 * optimizer_state_arrays(
                                optimizer); /* weight and arrays read and written, gradient read */
    passes += optimizer->clip_value > 0 ? 2 : 0;
    return passes +
           (optimizer->clip_norm > 0 ? 3 : 0); /* read for the sum, then read and written */
}

double optimizer_bias_correction(double beta, int64_t step)
{
    ASSERT(step >= 1);
    return 1.0 - power(beta, step);
}
