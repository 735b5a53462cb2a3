#include "libtrain/ops/relu.h"

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"

struct relu_job {
    size_t count, slabs;
    float ceiling;
    const float *x, *y, *dy;
    float *out;
    bool accumulate;
};

SIMD_CLONES static void forward_loop(size_t count, float ceiling, const float *x, float *y)
{
    if (ceiling == RELU_NO_CEILING) {
        SIMD_IN_PLACE
        for (size_t i = 0; i < count; i++) {
            y[i] = x[i] < 0.0f ? 0.0f : x[i];
        }
        return;
    }
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        float value = x[i] < 0.0f ? 0.0f : x[i];
        y[i] = value > ceiling ? ceiling : value;
    }
}

SIMD_CLONES static void backward_loop(size_t count, float ceiling, const float *y, const float *dy,
                                      float *dx, bool accumulate)
{
    float limit = ceiling == RELU_NO_CEILING ? __builtin_inff() : ceiling;
    if (accumulate) {
        SIMD_IN_PLACE
        for (size_t i = 0; i < count; i++) {
            dx[i] += y[i] <= 0.0f || y[i] >= limit ? 0.0f : dy[i];
        }
        return;
    }
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        dx[i] = y[i] <= 0.0f || y[i] >= limit ? 0.0f : dy[i];
    }
}

static void relu_slab(const void *arg, size_t task, size_t worker)
{
    const struct relu_job *job = arg;
    (void)worker;
    size_t first = slab_begin(job->count, job->slabs, task);
    size_t count = slab_begin(job->count, job->slabs, task + 1) - first;
    if (job->dy) {
        backward_loop(count, job->ceiling, job->y + first, job->dy + first, job->out + first,
                      job->accumulate);
    } else {
        forward_loop(count, job->ceiling, job->x + first, job->out + first);
    }
}

void relu_forward(const struct compute *compute, size_t count, float ceiling, const float *x,
                  float *y)
{
    const struct relu_job job = {.count = count,
                                 .slabs = slab_count(count, 1, SLABS_MAX),
                                 .ceiling = ceiling,
                                 .x = x,
                                 .out = y};
    pool_run(compute->pool, job.slabs, relu_slab, &job);
}

void relu_backward(const struct compute *compute, size_t count, float ceiling, const float *y,
                   const float *dy, float *dx, bool accumulate)
{
    const struct relu_job job = {.count = count,
                                 .slabs = slab_count(count, 1, SLABS_MAX),
                                 .ceiling = ceiling,
                                 .y = y,
                                 .dy = dy,
                                 .out = dx,
                                 .accumulate = accumulate};
    pool_run(compute->pool, job.slabs, relu_slab, &job);
}
