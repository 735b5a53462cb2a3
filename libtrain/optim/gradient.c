#include "libtrain/optim/gradient.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "libtrain/backend/simd.h"
#include "libtrain/model/workspace.h"

/* ---- finite ---- */

struct finite_job {
    size_t count, slabs;
    const float *gradient;
    atomic_bool *finite;
};

/* Largest exponent among the floats: all ones means infinity or NaN. */
SIMD_CLONES static uint32_t largest_exponent(size_t count, const float *restrict gradient)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &gradient[i], sizeof(bits));
        bits &= 0x7f800000u;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

static void finite_slab(const void *arg, size_t task, size_t worker)
{
    const struct finite_job *job = arg;
    (void)worker;
    size_t first = slab_begin(job->count, job->slabs, task);
    size_t count = slab_begin(job->count, job->slabs, task + 1) - first;
    if (largest_exponent(count, job->gradient + first) == 0x7f800000u) {
        atomic_store_explicit(job->finite, false, memory_order_relaxed);
    }
}

bool gradient_all_finite(const struct compute *compute, size_t count, const float *gradient)
{
    atomic_bool finite = true;
    const struct finite_job job = {
        .count = count, .slabs = slab_count(count, 1, SLABS_MAX), .gradient = gradient, .finite = &finite};
    pool_run(compute->pool, job.slabs, finite_slab, &job);
    return atomic_load(&finite);
}

/* ---- clipping by value ---- */

struct value_job {
    size_t count, slabs;
    float *gradient;
    float limit;
};

SIMD_CLONES static void clamp_loop(size_t count, float limit, float *restrict gradient)
{
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i];
        g = g > limit ? limit : g;
        gradient[i] = g < -limit ? -limit : g;
    }
}

static void clamp_slab(const void *arg, size_t task, size_t worker)
{
    const struct value_job *job = arg;
    (void)worker;
    size_t first = slab_begin(job->count, job->slabs, task);
    clamp_loop(slab_begin(job->count, job->slabs, task + 1) - first, job->limit, job->gradient + first);
}

void gradient_clip_value(const struct compute *compute, size_t count, float limit, float *gradient)
{
    const struct value_job job = {
        .count = count, .slabs = slab_count(count, 1, SLABS_MAX), .gradient = gradient, .limit = limit};
    pool_run(compute->pool, job.slabs, clamp_slab, &job);
}
