#include "libtrain/ops/batch_norm.h"

#include <math.h>

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"
#include "libtrain/ops/relu.h"

#define SUM_CHANNELS 128u /* channels masked at once */

struct batch_norm_job;

/* The operation on each element of rows [m, m + rows). */
typedef void (*rows_fn)(const struct batch_norm_job *job, size_t m, size_t rows);

struct batch_norm_job {
    const struct batch_norm_shape *shape;
    rows_fn each;
    const float *x, *dy, *saved;
    float *y, *dx;
    bool accumulate;
    float low, high; /* the activation is constant up to low and from high on */
    size_t partials;
    double *partial; /* [partials][2][C] */
    float *factor;   /* [3][C], after the partial sums: factors of the elementwise operation */
};

/* Lay out the shared scratch (batch_norm_workspace). */
static struct batch_norm_job job_of(const struct compute *compute,
                                    const struct batch_norm_shape *shape)
{
    const float infinity = __builtin_inff();
    struct batch_norm_job job = {
        .shape = shape,
        .low = shape->relu ? 0.0f : -infinity,
        .high = shape->relu && shape->ceiling != RELU_NO_CEILING ? shape->ceiling : infinity,
        .partials = slab_count(shape->M, shape->C, SLAB_PARTIALS_MAX)};
    job.partial = compute->shared;
    job.factor = (float *)(job.partial + job.partials * 2 * shape->C);
    return job;
}

static size_t elementwise_slabs(const struct batch_norm_shape *shape)
{
    return slab_count(shape->M, shape->C, SLABS_MAX);
}

static void elementwise_slab(const void *arg, size_t task, size_t worker)
{
    const struct batch_norm_job *job = arg;
    (void)worker;
    size_t count = elementwise_slabs(job->shape);
    size_t m = slab_begin(job->shape->M, count, task);
    job->each(job, m, slab_begin(job->shape->M, count, task + 1) - m);
}

static void run_elementwise(const struct compute *compute, struct batch_norm_job *job, rows_fn each)
{
    job->each = each;
    pool_run(compute->pool, elementwise_slabs(job->shape), elementwise_slab, job);
}

/* ---- sums over rows ---- */

/* Add four rows at a time, which quarters the memory traffic of the sums. */
SIMD_CLONES static void sum_squares(const float *restrict x, size_t rows, size_t C,
                                    double *restrict sum, double *restrict square)
{
    for (size_t c = 0; c < C; c++) {
        sum[c] = 0.0;
        square[c] = 0.0;
    }
    size_t m = 0;
    for (; m + 4 <= rows; m += 4) {
        const float *restrict row = x + m * C;
        for (size_t c = 0; c < C; c++) {
            double x0 = (double)row[c];
            double x1 = (double)row[C + c];
            double x2 = (double)row[2 * C + c];
            double x3 = (double)row[3 * C + c];
            sum[c] += (x0 + x1) + (x2 + x3);
            square[c] += (x0 * x0 + x1 * x1) + (x2 * x2 + x3 * x3);
        }
    }
    for (; m < rows; m++) {
        for (size_t c = 0; c < C; c++) {
            double value = (double)x[m * C + c];
            sum[c] += value;
            square[c] += value * value;
        }
    }
}

/* Return the gradient before the activation. y: the output of the batch-norm, which the activation
 * reads. */
static inline __attribute__((always_inline)) float masked(float y, float low, float high, float dy)
{
    return y <= low || y >= high ? 0.0f : dy;
}

/* The gradients of one row before the activation, for channels [c, c + count). */
static inline __attribute__((always_inline)) void
mask_row(const struct batch_norm_job *job, size_t m, size_t c, size_t count, float *restrict out)
{
    size_t C = job->shape->C;
    float low = job->low;
    float high = job->high;
    const float *restrict row = job->x + m * C + c;
    const float *restrict dy = job->dy + m * C + c;
    const float *restrict scale = job->saved + 2 * C + c;
    const float *restrict shift = job->saved + 3 * C + c;
    SIMD_IN_PLACE
    for (size_t i = 0; i < count; i++) {
        out[i] = masked(row[i] * scale[i] + shift[i], low, high, dy[i]);
    }
}

/* Sum dy, and dy (x - mean), over rows [m, m + rows): two rows at a time, as many channels as a
 * buffer holds. The masking and the summing are separate loops, because only separate loops
 * vectorise. */
SIMD_CLONES static void sum_products(const struct batch_norm_job *job, size_t m, size_t rows,
                                     double *restrict sum, double *restrict product)
{
    float d0[SUM_CHANNELS];
    float d1[SUM_CHANNELS];
    size_t C = job->shape->C;
    for (size_t c = 0; c < C; c++) {
        sum[c] = 0.0;
        product[c] = 0.0;
    }
    for (size_t end = m + rows; m < end; m += 2) {
        for (size_t c = 0; c < C; c += SUM_CHANNELS) {
            size_t count = C - c < SUM_CHANNELS ? C - c : SUM_CHANNELS;
            const float *restrict mean = job->saved + c;
            const float *restrict row = job->x + m * C + c;
            double *restrict sums = sum + c;
            double *restrict products = product + c;
            mask_row(job, m, c, count, d0);
            if (m + 1 == end) {
                for (size_t i = 0; i < count; i++) {
                    sums[i] += (double)d0[i];
                    products[i] += (double)d0[i] * (double)(row[i] - mean[i]);
                }
                continue;
            }
            mask_row(job, m + 1, c, count, d1);
            const float *restrict next = row + C;
            for (size_t i = 0; i < count; i++) {
                sums[i] += (double)d0[i] + (double)d1[i];
                products[i] += (double)d0[i] * (double)(row[i] - mean[i]) +
                               (double)d1[i] * (double)(next[i] - mean[i]);
            }
        }
    }
}

static void sum_slab(const void *arg, size_t task, size_t worker)
{
    const struct batch_norm_job *job = arg;
    size_t C = job->shape->C;
    (void)worker;
    size_t m = slab_begin(job->shape->M, job->partials, task);
    size_t rows = slab_begin(job->shape->M, job->partials, task + 1) - m;
    double *partial = job->partial + task * 2 * C;
    if (job->dy) {
        sum_products(job, m, rows, partial, partial + C);
    } else {
        sum_squares(job->x + m * C, rows, C, partial, partial + C);
    }
}

/* Return sum number `which` (0 or 1) of channel c, added over the slabs in order. */
static double total(const struct batch_norm_job *job, size_t which, size_t c)
{
    double sum = 0.0;
    for (size_t slab = 0; slab < job->partials; slab++) {
        sum += job->partial[(slab * 2 + which) * job->shape->C + c];
    }
    return sum;
}

/* ---- forward ---- */

SIMD_CLONES static void scale_rows(const struct batch_norm_job *job, size_t m, size_t rows)
{
    size_t C = job->shape->C;
    float low = job->low;
    float high = job->high;
    const float *restrict scale = job->factor;
    const float *restrict shift = job->factor + C;
    for (size_t end = m + rows; m < end; m++) {
        const float *row = job->x + m * C;
        float *out = job->y + m * C;
        SIMD_IN_PLACE
        for (size_t c = 0; c < C; c++) {
            float y = row[c] * scale[c] + shift[c];
            y = y < low ? low : y;
            out[c] = y > high ? high : y;
        }
    }
}

void batch_norm_forward(const struct compute *compute, const struct batch_norm_shape *shape,
                        const float *x, const float *weight, const float *bias, float *running_mean,
                        float *running_variance, float *saved, float *y)
{
    struct batch_norm_job job = job_of(compute, shape);
    size_t C = shape->C;
    job.x = x;
    job.y = y;
    pool_run(compute->pool, job.partials, sum_slab, &job);
    double count = (double)shape->M;
    double unbiased = shape->M > 1 ? count / (count - 1.0) : 1.0;
    for (size_t c = 0; c < C; c++) {
        double mean = total(&job, 0, c) / count;
        double variance = total(&job, 1, c) / count - mean * mean;
        variance = variance < 0.0 ? 0.0 : variance;
        double inverse = 1.0 / sqrt(variance + shape->epsilon);
        saved[c] = (float)mean;
        saved[C + c] = (float)inverse;
        job.factor[c] = (float)((double)weight[c] * inverse);
        job.factor[C + c] = (float)((double)bias[c] - mean * ((double)weight[c] * inverse));
        saved[2 * C + c] = job.factor[c];
        saved[3 * C + c] = job.factor[C + c];
        running_mean[c] =
            (float)((1.0 - shape->momentum) * (double)running_mean[c] + shape->momentum * mean);
        running_variance[c] = (float)((1.0 - shape->momentum) * (double)running_variance[c] +
                                      shape->momentum * (variance * unbiased));
    }
    run_elementwise(compute, &job, scale_rows);
}

/* Store in job.factor the factors, then the summands, that map x to y. */
static void fix_factors(struct batch_norm_job *job, const float *weight, const float *bias,
                        const float *running_mean, const float *running_variance)
{
    size_t C = job->shape->C;
    for (size_t c = 0; c < C; c++) {
        double scale = (double)weight[c] / sqrt((double)running_variance[c] + job->shape->epsilon);
        job->factor[c] = (float)scale;
        job->factor[C + c] = (float)((double)bias[c] - (double)running_mean[c] * scale);
    }
}

void batch_norm_again(const struct compute *compute, const struct batch_norm_shape *shape,
                      const float *x, const float *saved, float *y)
{
    struct batch_norm_job job = job_of(compute, shape);
    job.x = x;
    job.y = y;
    for (size_t c = 0; c < 2 * shape->C; c++) {
        job.factor[c] = saved[2 * shape->C + c];
    }
    run_elementwise(compute, &job, scale_rows);
}

void batch_norm_evaluate(const struct compute *compute, const struct batch_norm_shape *shape,
                         const float *x, const float *weight, const float *bias,
                         const float *running_mean, const float *running_variance, float *y)
{
    struct batch_norm_job job = job_of(compute, shape);
    job.x = x;
    job.y = y;
    fix_factors(&job, weight, bias, running_mean, running_variance);
    run_elementwise(compute, &job, scale_rows);
}

/* ---- backward ---- */

/* dx = dy a + (x - mean) b + d with factors [a][b][d]. */
SIMD_CLONES static void combine_rows(const struct batch_norm_job *job, size_t m, size_t rows)
{
    size_t C = job->shape->C;
    float low = job->low;
    float high = job->high;
    bool accumulate = job->accumulate;
    const float *restrict mean = job->saved;
    const float *restrict scale = job->saved + 2 * C;
    const float *restrict shift = job->saved + 3 * C;
    const float *restrict factor = job->factor;
    for (size_t end = m + rows; m < end; m++) {
        const float *restrict row = job->x + m * C;
        const float *gradient = job->dy + m * C;
        float *out = job->dx + m * C;
        SIMD_IN_PLACE
        for (size_t c = 0; c < C; c++) {
            float dy = masked(row[c] * scale[c] + shift[c], low, high, gradient[c]);
            float value = dy * factor[c] + (row[c] - mean[c]) * factor[C + c] + factor[2 * C + c];
            out[c] = accumulate ? out[c] + value : value;
        }
    }
}

void batch_norm_backward(const struct compute *compute, const struct batch_norm_shape *shape,
                         const float *x, const float *weight, const float *saved, const float *dy,
                         float *dx, bool accumulate, float *dweight, float *dbias)
{
    struct batch_norm_job job = job_of(compute, shape);
    size_t C = shape->C;
    job.x = x;
    job.saved = saved;
    job.dy = dy;
    job.dx = dx;
    job.accumulate = accumulate;
    pool_run(compute->pool, job.partials, sum_slab, &job);
    for (size_t c = 0; c < C; c++) {
        double sum = total(&job, 0, c);
        double inverse = (double)saved[C + c];
        double normalised = total(&job, 1, c) * inverse; /* sum of dy xhat */
        double scale = (double)weight[c] * inverse;
        dweight[c] = (float)((double)dweight[c] + normalised);
        dbias[c] = (float)((double)dbias[c] + sum);
        job.factor[c] = (float)scale;
        job.factor[C + c] = (float)(-scale * inverse * normalised / (double)shape->M);
        job.factor[2 * C + c] = (float)(-scale * sum / (double)shape->M);
    }
    if (dx) {
        run_elementwise(compute, &job, combine_rows);
    }
}

/* dx = dy a with the factors of the forward pass. */
SIMD_CLONES static void shorten_rows(const struct batch_norm_job *job, size_t m, size_t rows)
{
    size_t C = job->shape->C;
    float low = job->low;
    float high = job->high;
    bool accumulate = job->accumulate;
    const float *restrict scale = job->factor;
    const float *restrict shift = job->factor + C;
    for (size_t end = m + rows; m < end; m++) {
        const float *restrict row = job->x + m * C;
        const float *gradient = job->dy + m * C;
        float *out = job->dx + m * C;
        SIMD_IN_PLACE
        for (size_t c = 0; c < C; c++) {
            float value = masked(row[c] * scale[c] + shift[c], low, high, gradient[c]) * scale[c];
            out[c] = accumulate ? out[c] + value : value;
        }
    }
}

void batch_norm_backward_frozen(const struct compute *compute, const struct batch_norm_shape *shape,
                                const float *x, const float *weight, const float *bias,
                                const float *running_mean, const float *running_variance,
                                const float *dy, float *dx, bool accumulate)
{
    struct batch_norm_job job = job_of(compute, shape);
    job.x = x;
    job.dy = dy;
    job.dx = dx;
    job.accumulate = accumulate;
    fix_factors(&job, weight, bias, running_mean, running_variance);
    run_elementwise(compute, &job, shorten_rows);
}
