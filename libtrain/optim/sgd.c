#include "libtrain/optim/sgd.h"

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"

struct sgd_job {
    size_t count, slabs;
    float rate, momentum, weight_decay;
    bool nesterov;
    const float *before;
    float *parameter, *gradient, *buffer;
};

SIMD_CLONES static void plain_loop(size_t count, float rate, float decay, const float *before,
                                   float *parameter, float *restrict gradient)
{
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i] + decay * before[i];
        parameter[i] = before[i] - rate * g;
        gradient[i] = 0.0f;
    }
}

SIMD_CLONES static void momentum_loop(size_t count, const struct sgd_job *job, const float *before,
                                      float *parameter, float *restrict gradient,
                                      float *restrict buffer)
{
    float rate = job->rate;
    float momentum = job->momentum;
    float decay = job->weight_decay;
    float ahead = job->nesterov ? momentum : 0.0f;
    float own = job->nesterov ? 1.0f : 0.0f;
    float whole = job->nesterov ? 0.0f : 1.0f;
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i] + decay * before[i];
        float b = momentum * buffer[i] + g;
        buffer[i] = b;
        parameter[i] = before[i] - rate * (whole * b + (own * g + ahead * b));
        gradient[i] = 0.0f;
    }
}

static void sgd_slab(const void *arg, size_t task, size_t worker)
{
    const struct sgd_job *job = arg;
    (void)worker;
    size_t first = slab_begin(job->count, job->slabs, task);
    size_t count = slab_begin(job->count, job->slabs, task + 1) - first;
    if (job->buffer) {
        momentum_loop(count, job, job->before + first, job->parameter + first,
                      job->gradient + first, job->buffer + first);
    } else {
        plain_loop(count, job->rate, job->weight_decay, job->before + first, job->parameter + first,
                   job->gradient + first);
    }
}

void sgd_step(const struct compute *compute, const struct optimizer *optimizer, double rate,
              size_t count, const float *before, float *parameter, float *gradient, float *buffer)
{
    const struct sgd_job job = {.count = count,
                                .slabs = slab_count(count, 1, SLABS_MAX),
                                .rate = (float)rate,
                                .momentum = (float)optimizer->momentum,
                                .weight_decay = (float)optimizer->weight_decay,
                                .nesterov = optimizer->nesterov,
                                .before = before,
                                .parameter = parameter,
                                .gradient = gradient,
                                .buffer = buffer};
    pool_run(compute->pool, job.slabs, sgd_slab, &job);
}
