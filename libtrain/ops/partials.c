#include "libtrain/ops/partials.h"

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"

struct partials_job {
    float *sum;
    const float *partial;
    size_t partials, count, slabs;
};

SIMD_CLONES static void add_range(const struct partials_job *job, size_t first, size_t end)
{
    float *restrict sum = job->sum;
    const float *restrict partial = job->partial;
    size_t count = job->count;
    for (size_t i = first; i < end; i++) {
        float value = partial[i];
        for (size_t p = 1; p < job->partials; p++) {
            value += partial[p * count + i];
        }
        sum[i] += value;
    }
}

static void add_slab(const void *arg, size_t task, size_t worker)
{
    const struct partials_job *job = arg;
    (void)worker;
    add_range(job, slab_begin(job->count, job->slabs, task),
              slab_begin(job->count, job->slabs, task + 1));
}

void partials_add(const struct compute *compute, float *sum, const float *partial, size_t partials,
                  size_t count)
{
    const struct partials_job job = {.sum = sum,
                                     .partial = partial,
                                     .partials = partials,
                                     .count = count,
                                     .slabs = slab_count(count, partials, SLABS_MAX)};
    pool_run(compute->pool, job.slabs, add_slab, &job);
}
