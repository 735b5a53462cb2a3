#include "libtrain/ops/dropout.h"

#include "libtrain/kernels/workspace.h"

struct dropout_job {
    size_t count, slabs;
    const struct dropout_mask *mask;
    uint32_t threshold; /* of the draw's 24 bits */
    float scale;
    const float *x;
    float *y;
    bool accumulate;
};

static void dropout_slab(const void *arg, size_t task, size_t worker)
{
    const struct dropout_job *job = arg;
    (void)worker;
    size_t end = slab_begin(job->count, job->slabs, task + 1);
    struct rng_block block = {{0}};
    bool drawn = false;
    for (size_t i = slab_begin(job->count, job->slabs, task); i < end; i++) {
        uint64_t index = job->mask->first + i;
        if (!drawn || index % 4 == 0) {
            block = rng_block(&job->mask->stream, index / 4);
            drawn = true;
        }
        float value = block.word[index % 4] >> 8 >= job->threshold ? job->x[i] * job->scale : 0.0f;
        job->y[i] = job->accumulate ? job->y[i] + value : value;
    }
}

void dropout_apply(const struct compute *compute, size_t count, const struct dropout_mask *mask,
                   const float *x, float *y, bool accumulate)
{
    /* Compare draw * 2^-24 >= rate without rounding: draw >= the least integer that is not below
     * rate * 2^24. */
    double border = mask->rate * 0x1p24;
    uint32_t threshold = (uint32_t)border;
    threshold += (double)threshold < border;
    const struct dropout_job job = {.count = count,
                                    .slabs = slab_count(count, 8, SLABS_MAX),
                                    .mask = mask,
                                    .threshold = threshold,
                                    .scale = (float)(1.0 / (1.0 - mask->rate)),
                                    .x = x,
                                    .y = y,
                                    .accumulate = accumulate};
    pool_run(compute->pool, job.slabs, dropout_slab, &job);
}
