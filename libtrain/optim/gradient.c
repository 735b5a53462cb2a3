#include "libtrain/optim/gradient.h"

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"

/* Number of partial sums within a slab: enough to keep the widest vectors busy. It is fixed, so
 * that every ISA adds in the same order. */
#define LANES 16
#define NORM_EPSILON 1e-6 /* PyTorch's */

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
    const struct finite_job job = {.count = count,
                                   .slabs = slab_count(count, 1, SLABS_MAX),
                                   .gradient = gradient,
                                   .finite = &finite};
    pool_run(compute->pool, job.slabs, finite_slab, &job);
    return atomic_load(&finite);
}

/* ---- elementwise operations with one number ---- */

struct each_job {
    size_t count, slabs;
    float *gradient;
    float number;
    void (*each)(size_t count, float number, float *gradient);
};

static void each_slab(const void *arg, size_t task, size_t worker)
{
    const struct each_job *job = arg;
    (void)worker;
    size_t first = slab_begin(job->count, job->slabs, task);
    job->each(slab_begin(job->count, job->slabs, task + 1) - first, job->number,
              job->gradient + first);
}

static void run_each(const struct compute *compute, struct each_job job)
{
    job.slabs = slab_count(job.count, 1, SLABS_MAX);
    pool_run(compute->pool, job.slabs, each_slab, &job);
}

/* ---- clipping by value ---- */

SIMD_CLONES static void clamp_loop(size_t count, float limit, float *restrict gradient)
{
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i];
        g = g > limit ? limit : g;
        gradient[i] = g < -limit ? -limit : g;
    }
}

void gradient_clip_value(const struct compute *compute, size_t count, float limit, float *gradient)
{
    run_each(compute,
             (struct each_job){
                 .count = count, .gradient = gradient, .number = limit, .each = clamp_loop});
}

/* ---- clipping by norm ---- */

struct squares_job {
    size_t count, slabs;
    const float *gradient;
    double *partial; /* [slabs] */
};

SIMD_CLONES static double sum_loop(size_t count, const float *restrict gradient)
{
    double lane[LANES] = {0.0};
    size_t whole = count - count % LANES;
    for (size_t i = 0; i < whole; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            double g = (double)gradient[i + k];
            lane[k] += g * g;
        }
    }
    for (size_t i = whole; i < count; i++) {
        double g = (double)gradient[i];
        lane[i - whole] += g * g;
    }
    double sum = 0.0;
    for (size_t k = 0; k < LANES; k++) {
        sum += lane[k];
    }
    return sum;
}

static void sum_slab(const void *arg, size_t task, size_t worker)
{
    const struct squares_job *job = arg;
    (void)worker;
    size_t first = slab_begin(job->count, job->slabs, task);
    job->partial[task] =
        sum_loop(slab_begin(job->count, job->slabs, task + 1) - first, job->gradient + first);
}

double gradient_sum_squares(const struct compute *compute, size_t count, const float *gradient)
{
    double partial[SLABS_MAX];
    const struct squares_job job = {.count = count,
                                    .slabs = slab_count(count, 1, SLABS_MAX),
                                    .gradient = gradient,
                                    .partial = partial};
    pool_run(compute->pool, job.slabs, sum_slab, &job);
    double sum = 0.0;
    for (size_t slab = 0; slab < job.slabs; slab++) {
        sum += partial[slab];
    }
    return sum;
}

float gradient_norm_factor(double limit, double squares)
{
    double factor = limit / (sqrt(squares) + NORM_EPSILON);
    return factor < 1.0 ? (float)factor : 1.0f;
}

SIMD_CLONES static void scale_loop(size_t count, float factor, float *restrict gradient)
{
    for (size_t i = 0; i < count; i++) {
        gradient[i] *= factor;
    }
}

void gradient_scale(const struct compute *compute, size_t count, float factor, float *gradient)
{
    run_each(compute,
             (struct each_job){
                 .count = count, .gradient = gradient, .number = factor, .each = scale_loop});
}

/* ---- adding ---- */

struct add_job {
    size_t count, slabs;
    const float *gradient;
    float *sum;
};

SIMD_CLONES static void add_loop(size_t count, const float *restrict gradient, float *restrict sum)
{
    for (size_t i = 0; i < count; i++) {
        sum[i] += gradient[i];
    }
}

static void add_slab(const void *arg, size_t task, size_t worker)
{
    const struct add_job *job = arg;
    (void)worker;
    const size_t first = slab_begin(job->count, job->slabs, task);
    add_loop(slab_begin(job->count, job->slabs, task + 1) - first, job->gradient + first,
             job->sum + first);
}

void gradient_add(const struct compute *compute, size_t count, const float *gradient, float *sum)
{
    const struct add_job job = {
        .count = count, .slabs = slab_count(count, 1, SLABS_MAX), .gradient = gradient, .sum = sum};
    pool_run(compute->pool, job.slabs, add_slab, &job);
}
