#include "libtrain/optim/adam.h"

#include <math.h>

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"

struct adam_job {
    size_t count, slabs;
    float keep_average, take_average; /* beta1, 1 - beta1 */
    float keep_square, take_square;   /* beta2, 1 - beta2 */
    float rate;                       /* corrected for the average's start at zero */
    float root_scale;                 /* corrects the square's start at zero: factor of its root */
    float epsilon;
    float l2;   /* ADAM: fraction of the parameter added to the gradient */
    float keep; /* ADAMW: fraction of the parameter that remains */
    const float *before;
    float *parameter, *gradient, *average, *square;
};

/* The square root and the division are exactly rounded, as IEEE 754 requires, in vectors too. So
 * every ISA gives the same bits. */
SIMD_CLONES static void adam_loop(size_t count, const struct adam_job *job, const float *before,
                                  float *parameter, float *restrict gradient,
                                  float *restrict average, float *restrict square)
{
    const struct adam_job j = *job;
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        float p = before[i] * j.keep;
        float g = gradient[i] + j.l2 * p;
        float m = j.keep_average * average[i] + j.take_average * g;
        float v = j.keep_square * square[i] + j.take_square * g * g;
        average[i] = m;
        square[i] = v;
        parameter[i] = p - j.rate * m / (sqrtf(v) * j.root_scale + j.epsilon);
        gradient[i] = 0.0f;
    }
}

static void adam_slab(const void *arg, size_t task, size_t worker)
{
    const struct adam_job *job = arg;
    (void)worker;
    size_t first = slab_begin(job->count, job->slabs, task);
    size_t count = slab_begin(job->count, job->slabs, task + 1) - first;
    adam_loop(count, job, job->before + first, job->parameter + first, job->gradient + first,
              job->average + first, job->square + first);
}

void adam_step(const struct compute *compute, const struct optimizer *optimizer, int64_t step,
               double rate, size_t count, const float *before, float *parameter, float *gradient,
               float *average, float *square)
{
    bool decoupled = optimizer->type == OPTIMIZER_ADAMW;
    const struct adam_job job = {
        .count = count,
        .slabs = slab_count(count, 1, SLABS_MAX),
        .keep_average = (float)optimizer->beta1,
        .take_average = (float)(1.0 - optimizer->beta1),
        .keep_square = (float)optimizer->beta2,
        .take_square = (float)(1.0 - optimizer->beta2),
        .rate = (float)(rate / optimizer_bias_correction(optimizer->beta1, step)),
        .root_scale = (float)(1.0 / sqrt(optimizer_bias_correction(optimizer->beta2, step))),
        .epsilon = (float)optimizer->epsilon,
        .l2 = decoupled ? 0.0f : (float)optimizer->weight_decay,
        .keep = decoupled ? (float)(1.0 - rate * optimizer->weight_decay) : 1.0f,
        .before = before,
        .parameter = parameter,
        .gradient = gradient,
        .average = average,
        .square = square,
    };
    pool_run(compute->pool, job.slabs, adam_slab, &job);
}
