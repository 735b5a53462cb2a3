#include "libtrain/ops/activation.h"

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"
#include "libtrain/ops/elementary_vector.h"

#define ELEMENT_WORK 16 /* cost of an element, in floats of plain arithmetic */
#define INVERSE_SQRT_2PI 0.39894228040143267794

struct activation_job {
    enum activation kind;
    size_t count, slabs;
    const float *x, *dy;
    float *out;
    bool accumulate;
};

SIMD_CLONES static void gelu_loop(size_t count, const float *x, float *y)
{
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        double value = (double)x[i];
        double bell;
        y[i] = (float)(value * elementary_normal_share(value, &bell));
    }
}

/* f' = P(x) + x p(x), p the density. */
SIMD_CLONES static void gelu_gradient_loop(size_t count, const float *x, const float *dy, float *dx)
{
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        double value = (double)x[i];
        double bell;
        double share = elementary_normal_share(value, &bell);
        dx[i] = (float)((double)dy[i] * (share + value * bell * INVERSE_SQRT_2PI));
    }
}

SIMD_CLONES static void gelu_gradient_add_loop(size_t count, const float *x, const float *dy,
                                               float *dx)
{
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        double value = (double)x[i];
        double bell;
        double share = elementary_normal_share(value, &bell);
        dx[i] += (float)((double)dy[i] * (share + value * bell * INVERSE_SQRT_2PI));
    }
}

SIMD_CLONES static void silu_loop(size_t count, const float *x, float *y)
{
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        y[i] = (float)((double)x[i] * elementary_sigmoid((double)x[i]));
    }
}

/* f' = s (1 + x (1 - s)), s the sigmoid. */
SIMD_CLONES static void silu_gradient_loop(size_t count, const float *x, const float *dy, float *dx)
{
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        double value = (double)x[i];
        double share = elementary_sigmoid(value);
        dx[i] = (float)((double)dy[i] * (share * (1.0 + value * (1.0 - share))));
    }
}

SIMD_CLONES static void silu_gradient_add_loop(size_t count, const float *x, const float *dy,
                                               float *dx)
{
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        double value = (double)x[i];
        double share = elementary_sigmoid(value);
        dx[i] += (float)((double)dy[i] * (share * (1.0 + value * (1.0 - share))));
    }
}

static void activation_slab(const void *arg, size_t task, size_t worker)
{
    const struct activation_job *job = arg;
    (void)worker;
    size_t first = slab_begin(job->count, job->slabs, task);
    size_t count = slab_begin(job->count, job->slabs, task + 1) - first;
    const float *x = job->x + first;
    float *out = job->out + first;
    bool gelu = job->kind == ACTIVATION_GELU;
    if (!job->dy) {
        (gelu ? gelu_loop : silu_loop)(count, x, out);
    } else if (job->accumulate) {
        (gelu ? gelu_gradient_add_loop : silu_gradient_add_loop)(count, x, job->dy + first, out);
    } else {
        (gelu ? gelu_gradient_loop : silu_gradient_loop)(count, x, job->dy + first, out);
    }
}

void activation_forward(const struct compute *compute, enum activation kind, size_t count,
                        const float *x, float *y)
{
    const struct activation_job job = {.kind = kind,
                                       .count = count,
                                       .slabs = slab_count(count, ELEMENT_WORK, SLABS_MAX),
                                       .x = x,
                                       .out = y};
    pool_run(compute->pool, job.slabs, activation_slab, &job);
}

void activation_backward(const struct compute *compute, enum activation kind, size_t count,
                         const float *x, const float *dy, float *dx, bool accumulate)
{
    const struct activation_job job = {.kind = kind,
                                       .count = count,
                                       .slabs = slab_count(count, ELEMENT_WORK, SLABS_MAX),
                                       .x = x,
                                       .dy = dy,
                                       .out = dx,
                                       .accumulate = accumulate};
    pool_run(compute->pool, job.slabs, activation_slab, &job);
}
