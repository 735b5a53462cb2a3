#include "libtrain/ops/embedding.h"

#include <string.h>

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"

#define SUM_DOUBLES 256 /* sums of positions_backward, on the stack */

struct embedding_job {
    size_t M, C, slabs; /* rows of floats; positions: N samples of C floats */
    const float *token, *x, *weight;
    float *y;
};

static const float *row_of(const struct embedding_job *job, size_t m)
{
    return job->weight + (size_t)job->token[m] * job->C;
}

static void gather_slab(const void *arg, size_t task, size_t worker)
{
    const struct embedding_job *job = arg;
    (void)worker;
    size_t end = slab_begin(job->M, job->slabs, task + 1);
    for (size_t m = slab_begin(job->M, job->slabs, task); m < end; m++) {
        memcpy(job->y + m * job->C, row_of(job, m), job->C * sizeof(float));
    }
}

void embedding_forward(const struct compute *compute, size_t M, size_t C, const float *token,
                       const float *weight, float *y)
{
    const struct embedding_job job = {.M = M,
                                      .C = C,
                                      .slabs = slab_count(M, C, SLABS_MAX),
                                      .token = token,
                                      .weight = weight,
                                      .y = y};
    pool_run(compute->pool, job.slabs, gather_slab, &job);
}

SIMD_CLONES static void add_row(size_t count, const float *restrict x, float *restrict y)
{
    for (size_t c = 0; c < count; c++) {
        y[c] += x[c];
    }
}

/* Tasks split channels, never rows: any token may use any row of the weight. */
static void scatter_slab(const void *arg, size_t task, size_t worker)
{
    const struct embedding_job *job = arg;
    (void)worker;
    size_t c = slab_begin(job->C, job->slabs, task);
    size_t channels = slab_begin(job->C, job->slabs, task + 1) - c;
    for (size_t m = 0; m < job->M; m++) {
        add_row(channels, job->x + m * job->C + c, job->y + (size_t)job->token[m] * job->C + c);
    }
}

void embedding_backward(const struct compute *compute, size_t M, size_t C, const float *token,
                        const float *dy, float *dweight)
{
    const struct embedding_job job = {.M = M,
                                      .C = C,
                                      .slabs = slab_count(C, M, SLABS_MAX),
                                      .token = token,
                                      .x = dy,
                                      .y = dweight};
    pool_run(compute->pool, job.slabs, scatter_slab, &job);
}

SIMD_CLONES static void add_two(size_t count, const float *x, const float *restrict weight,
                                float *y)
{
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        y[i] = x[i] + weight[i];
    }
}

static void add_slab(const void *arg, size_t task, size_t worker)
{
    const struct embedding_job *job = arg;
    (void)worker;
    size_t end = slab_begin(job->M, job->slabs, task + 1);
    for (size_t n = slab_begin(job->M, job->slabs, task); n < end; n++) {
        add_two(job->C, job->x + n * job->C, job->weight, job->y + n * job->C);
    }
}

void positions_forward(const struct compute *compute, size_t N, size_t count, const float *x,
                       const float *weight, float *y)
{
    const struct embedding_job job = {.M = N,
                                      .C = count,
                                      .slabs = slab_count(N, count, SLABS_MAX),
                                      .x = x,
                                      .weight = weight,
                                      .y = y};
    pool_run(compute->pool, job.slabs, add_slab, &job);
}

SIMD_CLONES static void sum_samples(size_t N, size_t stride, size_t count, const float *restrict x,
                                    float *restrict y)
{
    double sum[SUM_DOUBLES] = {0};
    for (size_t n = 0; n < N; n++) {
        for (size_t i = 0; i < count; i++) {
            sum[i] += (double)x[n * stride + i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        y[i] = (float)((double)y[i] + sum[i]);
    }
}

static void sum_slab(const void *arg, size_t task, size_t worker)
{
    const struct embedding_job *job = arg;
    (void)worker;
    size_t end = slab_begin(job->C, job->slabs, task + 1);
    for (size_t i = slab_begin(job->C, job->slabs, task); i < end; i += SUM_DOUBLES) {
        size_t count = end - i < SUM_DOUBLES ? end - i : SUM_DOUBLES;
        sum_samples(job->M, job->C, count, job->x + i, job->y + i);
    }
}

void positions_backward(const struct compute *compute, size_t N, size_t count, const float *dy,
                        float *dweight)
{
    const struct embedding_job job = {
        .M = N, .C = count, .slabs = slab_count(count, N, SLABS_MAX), .x = dy, .y = dweight};
    pool_run(compute->pool, job.slabs, sum_slab, &job);
}
