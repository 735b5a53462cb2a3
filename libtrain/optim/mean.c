#include "libtrain/optim/mean.h"

#include <string.h>

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"

#define BLOCK 1024 /* floats: sums stay in the first cache */

struct mean_job {
    size_t count, slabs, versions;
    float *const *version;
};

SIMD_CLONES static void add_loop(size_t count, const float *restrict from, float *restrict sum)
{
    for (size_t i = 0; i < count; i++) {
        sum[i] += from[i];
    }
}

SIMD_CLONES static void divide_loop(size_t count, float number, const float *restrict sum,
                                    float *restrict to)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = sum[i] / number;
    }
}

static void mean_slab(const void *arg, size_t task, size_t worker)
{
    const struct mean_job *job = arg;
    float sum[BLOCK];
    (void)worker;
    const size_t end = slab_begin(job->count, job->slabs, task + 1);
    for (size_t first = slab_begin(job->count, job->slabs, task); first < end; first += BLOCK) {
        const size_t count = end - first < BLOCK ? end - first : BLOCK;
        memcpy(sum, job->version[0] + first, count * sizeof(float));
        for (size_t v = 1; v < job->versions; v++) {
            add_loop(count, job->version[v] + first, sum);
        }
        divide_loop(count, (float)job->versions, sum, job->version[job->versions - 1] + first);
    }
}

void mean_into_last(const struct compute *compute, size_t count, size_t versions,
                    float *const *version)
{
    const struct mean_job job = {.count = count,
                                 .slabs = slab_count(count, 1, SLABS_MAX),
                                 .versions = versions,
                                 .version = version};
    pool_run(compute->pool, job.slabs, mean_slab, &job);
}
