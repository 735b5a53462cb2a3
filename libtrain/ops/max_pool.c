#include <string.h>

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"
#include "libtrain/ops/pool2d.h"

struct max_pool_job {
    const struct pool2d_shape *shape;
    const float *x, *dy;
    float *y, *dx;
    uint16_t *position;
    const uint16_t *winner;
    bool accumulate;
    size_t slabs;
};

/* Input rows (or columns) [first, end) of the window of output `out`. */
static inline void window(size_t out, size_t S, size_t P, size_t K, size_t size, size_t *first,
                          size_t *end)
{
    size_t start = out * S;
    *first = start > P ? start - P : 0;
    *end = start + K - P < size ? start + K - P : size;
}

SIMD_CLONES static void take_larger(size_t C, const float *restrict x, uint16_t index,
                                    float *restrict best, uint16_t *restrict position)
{
    for (size_t c = 0; c < C; c++) {
        bool wins = x[c] > best[c] || x[c] != x[c]; /* NaN wins, as in PyTorch */
        best[c] = wins ? x[c] : best[c];
        position[c] = wins ? index : position[c];
    }
}

SIMD_CLONES static void take_larger_value(size_t C, const float *restrict x, float *restrict best)
{
    for (size_t c = 0; c < C; c++) {
        best[c] = x[c] > best[c] || x[c] != x[c] ? x[c] : best[c];
    }
}

static void forward_pixel(const struct max_pool_job *job, size_t n, size_t oh, size_t ow)
{
    const struct pool2d_shape *s = job->shape;
    size_t out = ((n * s->OH + oh) * s->OW + ow) * s->C;
    size_t h_first;
    size_t h_end;
    size_t w_first;
    size_t w_end;
    window(oh, s->SH, s->PH, s->KH, s->H, &h_first, &h_end);
    window(ow, s->SW, s->PW, s->KW, s->W, &w_first, &w_end);
    bool first = true;
    for (size_t h = h_first; h < h_end; h++) {
        for (size_t w = w_first; w < w_end; w++, first = false) {
            const float *x = job->x + ((n * s->H + h) * s->W + w) * s->C;
            uint16_t index =
                (uint16_t)((h + s->PH - oh * s->SH) * s->KW + (w + s->PW - ow * s->SW));
            if (first) {
                memcpy(job->y + out, x, s->C * sizeof(float));
                for (size_t c = 0; job->position && c < s->C; c++) {
                    job->position[out + c] = index;
                }
            } else if (job->position) {
                take_larger(s->C, x, index, job->y + out, job->position + out);
            } else {
                take_larger_value(s->C, x, job->y + out);
            }
        }
    }
}

static void forward_slab(const void *arg, size_t task, size_t worker)
{
    const struct max_pool_job *job = arg;
    const struct pool2d_shape *s = job->shape;
    (void)worker;
    size_t end = slab_begin(s->N * s->OH, job->slabs, task + 1);
    for (size_t line = slab_begin(s->N * s->OH, job->slabs, task); line < end; line++) {
        for (size_t ow = 0; ow < s->OW; ow++) {
            forward_pixel(job, line / s->OH, line % s->OH, ow);
        }
    }
}

void max_pool_forward(const struct compute *compute, const struct pool2d_shape *shape,
                      const float *x, float *y, uint16_t *position)
{
    const struct max_pool_job job = {
        .shape = shape,
        .x = x,
        .y = y,
        .position = position,
        .slabs = slab_count(shape->N * shape->OH, shape->OW * shape->C, SLABS_MAX)};
    pool_run(compute->pool, job.slabs, forward_slab, &job);
}

/* Whole samples per slab, because windows may overlap within one. */
static void backward_slab(const void *arg, size_t task, size_t worker)
{
    const struct max_pool_job *job = arg;
    const struct pool2d_shape *s = job->shape;
    (void)worker;
    size_t n = slab_begin(s->N, job->slabs, task);
    size_t end = slab_begin(s->N, job->slabs, task + 1);
    size_t plane = s->H * s->W * s->C;
    if (!job->accumulate) {
        memset(job->dx + n * plane, 0, (end - n) * plane * sizeof(float));
    }
    for (; n < end; n++) {
        for (size_t pixel = 0; pixel < s->OH * s->OW; pixel++) {
            size_t h = pixel / s->OW * s->SH - s->PH; /* plus kh: never below zero */
            size_t w = pixel % s->OW * s->SW - s->PW;
            size_t out = (n * s->OH * s->OW + pixel) * s->C;
            for (size_t c = 0; c < s->C; c++) {
                size_t kh = job->winner[out + c] / s->KW;
                size_t kw = job->winner[out + c] % s->KW;
                job->dx[n * plane + ((h + kh) * s->W + (w + kw)) * s->C + c] += job->dy[out + c];
            }
        }
    }
}

void max_pool_backward(const struct compute *compute, const struct pool2d_shape *shape,
                       const uint16_t *position, const float *dy, float *dx, bool accumulate)
{
    const struct max_pool_job job = {
        .shape = shape,
        .winner = position,
        .dy = dy,
        .dx = dx,
        .accumulate = accumulate,
        .slabs = slab_count(shape->N, shape->H * shape->W * shape->C, SLABS_MAX)};
    pool_run(compute->pool, job.slabs, backward_slab, &job);
}
