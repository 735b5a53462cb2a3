#include "libtrain/ops/linear.h"

#include <string.h>

#include "libtrain/backend/gemm.h"
#include "libtrain/kernels/workspace.h"

#define LINEAR_SLABS_MAX 8

struct linear_job {
    const struct linear_shape *shape;
    const float *x, *weight, *bias, *dy;
    float *y, *dx, *dweight, *dbias;
    bool accumulate;
    size_t slabs;
};

/* Tasks split outputs (or features), never samples: each element of a result is one whole sum. */
static size_t slabs_of(size_t columns, size_t other)
{
    return slab_count(columns, other, LINEAR_SLABS_MAX);
}

static void forward_slab(const void *arg, size_t task, size_t worker)
{
    const struct linear_job *job = arg;
    const struct linear_shape *s = job->shape;
    (void)worker;
    size_t o = slab_begin(s->O, job->slabs, task);
    size_t outputs = slab_begin(s->O, job->slabs, task + 1) - o;
    float beta = 0.0f;
    if (job->bias) {
        for (size_t n = 0; n < s->N; n++) {
            memcpy(job->y + n * s->O + o, job->bias + o, outputs * sizeof(float));
        }
        beta = 1.0f;
    }
    gemm(false, true, s->N, outputs, s->F, job->x, s->F, job->weight + o * s->F, s->F, beta,
         job->y + o, s->O);
}

void linear_forward(const struct compute *compute, const struct linear_shape *shape, const float *x,
                    const float *weight, const float *bias, float *y)
{
    const struct linear_job job = {.shape = shape,
                                   .x = x,
                                   .weight = weight,
                                   .bias = bias,
                                   .y = y,
                                   .slabs = slabs_of(shape->O, shape->F)};
    pool_run(compute->pool, job.slabs, forward_slab, &job);
}

static void backward_data_slab(const void *arg, size_t task, size_t worker)
{
    const struct linear_job *job = arg;
    const struct linear_shape *s = job->shape;
    (void)worker;
    size_t f = slab_begin(s->F, job->slabs, task);
    size_t features = slab_begin(s->F, job->slabs, task + 1) - f;
    gemm(false, false, s->N, features, s->O, job->dy, s->O, job->weight + f, s->F,
         job->accumulate ? 1.0f : 0.0f, job->dx + f, s->F);
}

void linear_backward_data(const struct compute *compute, const struct linear_shape *shape,
                          const float *dy, const float *weight, float *dx, bool accumulate)
{
    const struct linear_job job = {.shape = shape,
                                   .dy = dy,
                                   .weight = weight,
                                   .dx = dx,
                                   .accumulate = accumulate,
                                   .slabs = slabs_of(shape->F, shape->O)};
    pool_run(compute->pool, job.slabs, backward_data_slab, &job);
}

static void backward_weights_slab(const void *arg, size_t task, size_t worker)
{
    const struct linear_job *job = arg;
    const struct linear_shape *s = job->shape;
    (void)worker;
    size_t o = slab_begin(s->O, job->slabs, task);
    size_t end = slab_begin(s->O, job->slabs, task + 1);
    gemm(true, false, end - o, s->F, s->N, job->dy + o, s->O, job->x, s->F, 1.0f,
         job->dweight + o * s->F, s->F);
    for (; job->dbias && o < end; o++) {
        double sum = 0.0;
        for (size_t n = 0; n < s->N; n++) {
            sum += (double)job->dy[n * s->O + o];
        }
        job->dbias[o] = (float)((double)job->dbias[o] + sum);
    }
}

void linear_backward_weights(const struct compute *compute, const struct linear_shape *shape,
                             const float *x, const float *dy, float *dweight, float *dbias)
{
    const struct linear_job job = {.shape = shape,
                                   .x = x,
                                   .dy = dy,
                                   .dweight = dweight,
                                   .dbias = dbias,
                                   .slabs = slabs_of(shape->O, shape->F)};
    pool_run(compute->pool, job.slabs, backward_weights_slab, &job);
}

static void permute(size_t O, struct shape flat, const float *from, float *to, bool import)
{
    size_t pixels = (size_t)flat.h * flat.w;
    for (size_t o = 0; o < O; o++) {
        size_t row = o * pixels * flat.c;
        for (size_t c = 0; c < flat.c; c++) {
            for (size_t p = 0; p < pixels; p++) {
                size_t theirs = row + c * pixels + p;
                size_t ours = row + p * flat.c + c;
                to[import ? ours : theirs] = from[import ? theirs : ours];
            }
        }
    }
}

void linear_import(size_t O, struct shape flat, const float *from, float *to)
{
    permute(O, flat, from, to, true);
}

void linear_export(size_t O, struct shape flat, const float *from, float *to)
{
    permute(O, flat, from, to, false);
}
