#include "libtrain/ops/join.h"

#include <string.h>

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"

struct join_job {
    size_t count, slabs; /* floats, or rows */
    const float *x, *second;
    const unsigned char *bytes;
    float scale;
    float *y;
    size_t C, from_width, to_width;
    bool accumulate;
};

SIMD_CLONES static void add_loop(size_t count, const float *x, const float *second, float *y)
{
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        y[i] = x[i] + second[i];
    }
}

static void add_slab(const void *arg, size_t task, size_t worker)
{
    const struct join_job *job = arg;
    (void)worker;
    size_t first = slab_begin(job->count, job->slabs, task);
    size_t count = slab_begin(job->count, job->slabs, task + 1) - first;
    if (job->second) {
        add_loop(count, job->x + first, job->second + first, job->y + first);
    } else {
        memcpy(job->y + first, job->x + first, count * sizeof(float));
    }
}

static void add_two(const struct compute *compute, size_t count, const float *x,
                    const float *second, float *y)
{
    const struct join_job job = {
        .count = count, .slabs = slab_count(count, 1, SLABS_MAX), .x = x, .second = second, .y = y};
    pool_run(compute->pool, job.slabs, add_slab, &job);
}

void add_forward(const struct compute *compute, size_t count, const float *const *x, size_t inputs,
                 float *y)
{
    if (inputs == 1 && x[0] == y) {
        return;
    }
    add_two(compute, count, x[0], inputs > 1 ? x[1] : NULL, y);
    for (size_t i = 2; i < inputs; i++) {
        add_two(compute, count, y, x[i], y);
    }
}

void copy_backward(const struct compute *compute, size_t count, const float *dy, float *dx,
                   bool accumulate)
{
    add_two(compute, count, dy, accumulate ? dx : NULL, dx);
}

static void copy_columns_slab(const void *arg, size_t task, size_t worker)
{
    const struct join_job *job = arg;
    (void)worker;
    size_t end = slab_begin(job->count, job->slabs, task + 1);
    for (size_t m = slab_begin(job->count, job->slabs, task); m < end; m++) {
        const float *from = job->x + m * job->from_width;
        float *to = job->y + m * job->to_width;
        if (job->accumulate) {
            add_loop(job->C, from, to, to);
        } else {
            memcpy(to, from, job->C * sizeof(float));
        }
    }
}

void concat_forward(const struct compute *compute, size_t M, size_t C, size_t width, size_t offset,
                    const float *x, float *y)
{
    const struct join_job job = {.count = M,
                                 .slabs = slab_count(M, C, SLABS_MAX),
                                 .x = x,
                                 .y = y + offset,
                                 .C = C,
                                 .from_width = C,
                                 .to_width = width};
    pool_run(compute->pool, job.slabs, copy_columns_slab, &job);
}

void concat_backward(const struct compute *compute, size_t M, size_t C, size_t width, size_t offset,
                     const float *dy, float *dx, bool accumulate)
{
    const struct join_job job = {.count = M,
                                 .slabs = slab_count(M, C, SLABS_MAX),
                                 .x = dy + offset,
                                 .y = dx,
                                 .C = C,
                                 .from_width = width,
                                 .to_width = C,
                                 .accumulate = accumulate};
    pool_run(compute->pool, job.slabs, copy_columns_slab, &job);
}

void select_forward(const struct compute *compute, size_t M, size_t C, size_t width, size_t offset,
                    const float *x, float *y)
{
    concat_backward(compute, M, C, width, offset, x, y, false);
}

static void zero_slab(const void *arg, size_t task, size_t worker)
{
    const struct join_job *job = arg;
    (void)worker;
    size_t first = slab_begin(job->count, job->slabs, task);
    size_t count = slab_begin(job->count, job->slabs, task + 1) - first;
    memset(job->y + first, 0, count * sizeof(float));
}

void select_backward(const struct compute *compute, size_t M, size_t C, size_t width, size_t offset,
                     const float *dy, float *dx, bool accumulate)
{
    const struct join_job zero = {
        .count = M * width, .slabs = slab_count(M * width, 1, SLABS_MAX), .y = dx};
    const struct join_job copy = {.count = M,
                                  .slabs = slab_count(M, C, SLABS_MAX),
                                  .x = dy,
                                  .y = dx + offset,
                                  .C = C,
                                  .from_width = C,
                                  .to_width = width,
                                  .accumulate = accumulate};
    if (!accumulate) {
        pool_run(compute->pool, zero.slabs, zero_slab, &zero);
    }
    pool_run(compute->pool, copy.slabs, copy_columns_slab, &copy);
}

SIMD_CLONES static void scale_bytes_loop(size_t count, float scale, const unsigned char *restrict x,
                                         float *restrict y)
{
    for (size_t i = 0; i < count; i++) {
        y[i] = (float)x[i] * scale;
    }
}

SIMD_CLONES static void scale_floats_loop(size_t count, float scale, const float *restrict x,
                                          float *restrict y)
{
    for (size_t i = 0; i < count; i++) {
        y[i] = x[i] * scale;
    }
}

static void scale_slab(const void *arg, size_t task, size_t worker)
{
    const struct join_job *job = arg;
    (void)worker;
    size_t first = slab_begin(job->count, job->slabs, task);
    size_t count = slab_begin(job->count, job->slabs, task + 1) - first;
    if (job->bytes) {
        scale_bytes_loop(count, job->scale, job->bytes + first, job->y + first);
    } else {
        scale_floats_loop(count, job->scale, job->x + first, job->y + first);
    }
}

void scale_bytes(const struct compute *compute, size_t count, float scale, const unsigned char *x,
                 float *y)
{
    const struct join_job job = {.count = count,
                                 .slabs = slab_count(count, 1, SLABS_MAX),
                                 .scale = scale,
                                 .bytes = x,
                                 .y = y};
    pool_run(compute->pool, job.slabs, scale_slab, &job);
}

void scale_floats(const struct compute *compute, size_t count, float scale, const float *x,
                  float *y)
{
    const struct join_job job = {
        .count = count, .slabs = slab_count(count, 1, SLABS_MAX), .scale = scale, .x = x, .y = y};
    pool_run(compute->pool, job.slabs, scale_slab, &job);
}

/* The channel changes with every element. The factors of all channels are repeated, so that the
 * loop can use whole vectors. */
#define PERIOD_MAX (NORMALISE_CHANNELS_MAX * SIMD_FLOATS)

struct normalise_job {
    size_t count, slabs;
    size_t period; /* channels * SIMD_FLOATS */
    const unsigned char *bytes;
    const float *x;
    float *y;
    float factor[PERIOD_MAX], offset[PERIOD_MAX];
};

SIMD_CLONES static void normalise_bytes_loop(size_t count, const float *restrict factor,
                                             const float *restrict offset,
                                             const unsigned char *restrict x, float *restrict y)
{
    for (size_t i = 0; i < count; i++) {
        y[i] = (float)x[i] * factor[i] + offset[i];
    }
}

SIMD_CLONES static void normalise_floats_loop(size_t count, const float *restrict factor,
                                              const float *restrict offset, const float *restrict x,
                                              float *restrict y)
{
    for (size_t i = 0; i < count; i++) {
        y[i] = x[i] * factor[i] + offset[i];
    }
}

static size_t period_count(const struct normalise_job *job)
{
    return (job->count + job->period - 1) / job->period;
}

static void normalise_slab(const void *arg, size_t task, size_t worker)
{
    const struct normalise_job *job = arg;
    (void)worker;
    size_t end = slab_begin(period_count(job), job->slabs, task + 1);
    for (size_t p = slab_begin(period_count(job), job->slabs, task); p < end; p++) {
        size_t first = p * job->period;
        size_t count = job->count - first < job->period ? job->count - first : job->period;
        if (job->bytes) {
            normalise_bytes_loop(count, job->factor, job->offset, job->bytes + first,
                                 job->y + first);
        } else {
            normalise_floats_loop(count, job->factor, job->offset, job->x + first, job->y + first);
        }
    }
}

static void run_normalise(const struct compute *compute, struct normalise_job *job, double scale,
                          const struct normalise *normalise)
{
    const size_t C = normalise->mean_count;
    job->period = C * SIMD_FLOATS;
    for (size_t i = 0; i < job->period; i++) {
        job->factor[i] = (float)(scale / normalise->std[i % C]);
        job->offset[i] = (float)(-normalise->mean[i % C] / normalise->std[i % C]);
    }
    job->slabs = slab_count(period_count(job), job->period, SLABS_MAX);
    pool_run(compute->pool, job->slabs, normalise_slab, job);
}

void normalise_bytes(const struct compute *compute, size_t count, double scale,
                     const struct normalise *normalise, const unsigned char *x, float *y)
{
    struct normalise_job job = {.count = count, .bytes = x, .y = y};
    run_normalise(compute, &job, scale, normalise);
}

void normalise_floats(const struct compute *compute, size_t count, double scale,
                      const struct normalise *normalise, const float *x, float *y)
{
    struct normalise_job job = {.count = count, .x = x, .y = y};
    run_normalise(compute, &job, scale, normalise);
}
