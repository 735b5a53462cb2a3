#include "libtrain/ops/channel_sum.h"

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"

struct sum_rows {
    size_t M, C, slabs;
    const float *x;
    double *partial; /* [slabs][C] */
};

SIMD_CLONES static void add_rows(const float *restrict x, size_t rows, size_t C,
                                 double *restrict sum)
{
    for (size_t c = 0; c < C; c++) {
        sum[c] = 0.0;
    }
    for (size_t m = 0; m < rows; m++) {
        const float *restrict row = x + m * C;
        for (size_t c = 0; c < C; c++) {
            sum[c] += (double)row[c];
        }
    }
}

static void sum_slab(const void *arg, size_t task, size_t worker)
{
    const struct sum_rows *job = arg;
    (void)worker;
    size_t begin = slab_begin(job->M, job->slabs, task);
    size_t end = slab_begin(job->M, job->slabs, task + 1);
    add_rows(job->x + begin * job->C, end - begin, job->C, job->partial + task * job->C);
}

void channel_sum(const struct compute *compute, size_t M, size_t C, const float *x, float *sum)
{
    struct sum_rows job = {.M = M, .C = C, .slabs = slab_count(M, C, SLAB_PARTIALS_MAX), .x = x};
    job.partial = compute->shared;
    pool_run(compute->pool, job.slabs, sum_slab, &job);
    for (size_t c = 0; c < C; c++) {
        double total = 0.0;
        for (size_t slab = 0; slab < job.slabs; slab++) {
            total += job.partial[slab * C + c];
        }
        sum[c] = (float)((double)sum[c] + total);
    }
}
