#include <string.h>

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"
#include "libtrain/ops/pool2d.h"

struct avg_pool_job {
    const struct pool2d_shape *shape;
    const float *x, *dy;
    float *y, *dx;
    bool accumulate;
    size_t slabs;
};

/* A window in one dimension: the input's rows or columns [first, end), and the window's length with
 * padding. */
struct span {
    size_t first, end, counted;
};

static inline struct span span_of(size_t out, size_t S, size_t P, size_t K, size_t size)
{
    size_t start = out * S; /* in the padded input */
    size_t stop = start + K < size + 2 * P ? start + K : size + 2 * P;
    size_t end = stop > P ? stop - P : 0;
    return (struct span){start > P ? start - P : 0, end < size ? end : size, stop - start};
}

static inline struct span rows_of(const struct pool2d_shape *s, size_t pixel)
{
    return span_of(pixel / s->OW % s->OH, s->SH, s->PH, s->KH, s->H);
}

static inline struct span columns_of(const struct pool2d_shape *s, size_t pixel)
{
    return span_of(pixel % s->OW, s->SW, s->PW, s->KW, s->W);
}

SIMD_CLONES static void add_scaled(size_t C, float scale, const float *restrict from,
                                   float *restrict to)
{
    for (size_t c = 0; c < C; c++) {
        to[c] += from[c] * scale;
    }
}

static void forward_slab(const void *arg, size_t task, size_t worker)
{
    const struct avg_pool_job *job = arg;
    const struct pool2d_shape *s = job->shape;
    (void)worker;
    size_t end = slab_begin(s->N * s->OH * s->OW, job->slabs, task + 1);
    for (size_t pixel = slab_begin(s->N * s->OH * s->OW, job->slabs, task); pixel < end; pixel++) {
        size_t n = pixel / (s->OH * s->OW);
        struct span rows = rows_of(s, pixel);
        struct span columns = columns_of(s, pixel);
        float scale = 1.0f / (float)(rows.counted * columns.counted);
        float *y = job->y + pixel * s->C;
        memset(y, 0, s->C * sizeof(float));
        for (size_t h = rows.first; h < rows.end; h++) {
            for (size_t w = columns.first; w < columns.end; w++) {
                add_scaled(s->C, scale, job->x + ((n * s->H + h) * s->W + w) * s->C, y);
            }
        }
    }
}

void avg_pool_forward(const struct compute *compute, const struct pool2d_shape *shape,
                      const float *x, float *y)
{
    const struct avg_pool_job job = {.shape = shape,
                                     .x = x,
                                     .y = y,
                                     .slabs =
                                         slab_count(shape->N * shape->OH * shape->OW,
                                                    shape->C * shape->KH * shape->KW, SLABS_MAX)};
    pool_run(compute->pool, job.slabs, forward_slab, &job);
}

/* Whole samples per slab, because windows may overlap within one. */
static void backward_slab(const void *arg, size_t task, size_t worker)
{
    const struct avg_pool_job *job = arg;
    const struct pool2d_shape *s = job->shape;
    (void)worker;
    size_t first = slab_begin(s->N, job->slabs, task);
    size_t end = slab_begin(s->N, job->slabs, task + 1);
    size_t plane = s->H * s->W * s->C;
    if (!job->accumulate) {
        memset(job->dx + first * plane, 0, (end - first) * plane * sizeof(float));
    }
    for (size_t pixel = first * s->OH * s->OW; pixel < end * s->OH * s->OW; pixel++) {
        size_t n = pixel / (s->OH * s->OW);
        struct span rows = rows_of(s, pixel);
        struct span columns = columns_of(s, pixel);
        float scale = 1.0f / (float)(rows.counted * columns.counted);
        for (size_t h = rows.first; h < rows.end; h++) {
            for (size_t w = columns.first; w < columns.end; w++) {
                add_scaled(s->C, scale, job->dy + pixel * s->C,
                           job->dx + ((n * s->H + h) * s->W + w) * s->C);
            }
        }
    }
}

void avg_pool_backward(const struct compute *compute, const struct pool2d_shape *shape,
                       const float *dy, float *dx, bool accumulate)
{
    const struct avg_pool_job job = {
        .shape = shape,
        .dy = dy,
        .dx = dx,
        .accumulate = accumulate,
        .slabs = slab_count(shape->N, shape->H * shape->W * shape->C, SLABS_MAX)};
    pool_run(compute->pool, job.slabs, backward_slab, &job);
}

/* ---- the whole plane ---- */

static void global_forward_slab(const void *arg, size_t task, size_t worker)
{
    const struct avg_pool_job *job = arg;
    size_t pixels = job->shape->H;
    size_t C = job->shape->C;
    (void)worker;
    size_t end = slab_begin(job->shape->N, job->slabs, task + 1);
    for (size_t n = slab_begin(job->shape->N, job->slabs, task); n < end; n++) {
        float *y = job->y + n * C;
        memset(y, 0, C * sizeof(float));
        for (size_t pixel = 0; pixel < pixels; pixel++) {
            add_scaled(C, 1.0f, job->x + (n * pixels + pixel) * C, y);
        }
        for (size_t c = 0; c < C; c++) {
            y[c] /= (float)pixels;
        }
    }
}

void global_avg_pool_forward(const struct compute *compute, size_t N, size_t pixels, size_t C,
                             const float *x, float *y)
{
    const struct pool2d_shape shape = {.N = N, .H = pixels, .C = C};
    const struct avg_pool_job job = {
        .shape = &shape, .x = x, .y = y, .slabs = slab_count(N, pixels * C, SLABS_MAX)};
    pool_run(compute->pool, job.slabs, global_forward_slab, &job);
}

static void global_backward_slab(const void *arg, size_t task, size_t worker)
{
    const struct avg_pool_job *job = arg;
    size_t pixels = job->shape->H;
    size_t C = job->shape->C;
    (void)worker;
    float scale = 1.0f / (float)pixels;
    size_t first = slab_begin(job->shape->N, job->slabs, task);
    size_t end = slab_begin(job->shape->N, job->slabs, task + 1);
    if (!job->accumulate) {
        memset(job->dx + first * pixels * C, 0, (end - first) * pixels * C * sizeof(float));
    }
    for (size_t row = first * pixels; row < end * pixels; row++) {
        add_scaled(C, scale, job->dy + row / pixels * C, job->dx + row * C);
    }
}

void global_avg_pool_backward(const struct compute *compute, size_t N, size_t pixels, size_t C,
                              const float *dy, float *dx, bool accumulate)
{
    const struct pool2d_shape shape = {.N = N, .H = pixels, .C = C};
    const struct avg_pool_job job = {.shape = &shape,
                                     .dy = dy,
                                     .dx = dx,
                                     .accumulate = accumulate,
                                     .slabs = slab_count(N, pixels * C, SLABS_MAX)};
    pool_run(compute->pool, job.slabs, global_backward_slab, &job);
}
