#include <stdlib.h>

#include "base/clock.h"
#include "libtrain/backend/denormal.h"
#include "libtrain/backend/gemm.h"
#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"
#include "libtrain/train.h"

#define GEMM_SIZE 384u
#define TRIAD_FLOATS                                                                               \
    2796192u /* of each of three arrays: 32 MiB together, cut into SLABS_MAX equal slabs */
#define ROUNDS_MIN 3

struct probe_job {
    float *memory;
    size_t slabs;
};

/* A, B and C of one thread. */
static void gemm_task(const void *arg, size_t task, size_t worker)
{
    const struct probe_job *job = arg;
    (void)worker;
    float *a = job->memory + task * 3 * GEMM_SIZE * GEMM_SIZE;
    float *b = a + GEMM_SIZE * GEMM_SIZE;
    gemm(false, false, GEMM_SIZE, GEMM_SIZE, GEMM_SIZE, a, GEMM_SIZE, b, GEMM_SIZE, 0.0f,
         b + GEMM_SIZE * GEMM_SIZE, GEMM_SIZE);
}

static void triad_task(const void *arg, size_t task, size_t worker)
{
    const struct probe_job *job = arg;
    (void)worker;
    float *restrict a = job->memory;
    const float *restrict b = a + TRIAD_FLOATS;
    const float *restrict c = b + TRIAD_FLOATS;
    for (size_t i = slab_begin(TRIAD_FLOATS, job->slabs, task);
         i < slab_begin(TRIAD_FLOATS, job->slabs, task + 1); i++) {
        a[i] = b[i] + 0.5f * c[i];
    }
}

/* Return the mean seconds of a round, after a warm-up. The fastest round would mislead: a device
 * with a share of a processor (a container's quota) computes at full speed in time slices, and a
 * round may fit into one slice. */
static double sustained(struct train_pool *pool, pool_task_fn task_fn, const struct probe_job *job,
                        double seconds)
{
    pool_run(pool, job->slabs, task_fn, job);
    double start = clock_now_seconds();
    double took = 0.0;
    int rounds = 0;
    while (rounds < ROUNDS_MIN || took < seconds) {
        pool_run(pool, job->slabs, task_fn, job);
        rounds++;
        took = clock_now_seconds() - start;
    }
    return took > 0.0 ? took / (double)rounds : 1e-9;
}

int train_probe(struct train_pool *pool, double seconds, struct train_probe *out, struct err *err)
{
    size_t threads = pool_threads(pool);
    size_t gemm_floats = threads * 3 * GEMM_SIZE * GEMM_SIZE;
    size_t floats = gemm_floats > 3 * TRIAD_FLOATS ? gemm_floats : 3 * TRIAD_FLOATS;
    float *memory = aligned_alloc(WORKSPACE_ALIGNMENT, floats * sizeof(float));
    if (!memory) {
        return err_set(err, ERR_MEMORY, "out of memory for the probe (%zu bytes)",
                       floats * sizeof(float));
    }
    for (size_t i = 0; i < floats; i++) {
        memory[i] = (float)(i % 7) * 0.125f;
    }
    uint64_t mode = denormal_flush();
    struct probe_job job = {.memory = memory, .slabs = threads};
    double size = (double)GEMM_SIZE;
    out->gemm_gflops = 2e-9 * size * size * size * (double)threads /
                       sustained(pool, gemm_task, &job, seconds / 2.0);
    job.slabs = SLABS_MAX;
    out->memory_bytes_per_second = 3.0 * (double)(TRIAD_FLOATS * sizeof(float)) /
                                   sustained(pool, triad_task, &job, seconds / 2.0);
    denormal_restore(mode);
    free(memory);
    return 0;
}
