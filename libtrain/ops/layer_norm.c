#include "libtrain/ops/layer_norm.h"

#include <math.h>

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/workspace.h"
#include "libtrain/ops/row_sum.h"

struct layer_norm_job {
    const struct layer_norm_shape *shape;
    const float *x, *weight, *bias, *dy;
    float *saved, *y, *dx;
    const float *statistics; /* saved by forward */
    bool accumulate;
    size_t slabs;
    double *partial; /* [slabs][2][C] */
};

/* ---- forward ---- */

SIMD_CLONES static void statistics_of(const float *restrict x, size_t C, double epsilon,
                                      float *restrict mean, float *restrict inverse)
{
    double sum;
    double square;
    ROW_SUM(sum, c, C, (double)x[c]);
    double middle = sum / (double)C;
    ROW_SUM(square, c, C, ((double)x[c] - middle) * ((double)x[c] - middle));
    *mean = (float)middle;
    *inverse = (float)(1.0 / sqrt(square / (double)C + epsilon));
}

SIMD_CLONES static void normalise(const float *x, size_t C, float mean, float inverse,
                                  const float *restrict weight, const float *restrict bias,
                                  float *y)
{
    SIMD_IN_PLACE
    for (size_t c = 0; c < C; c++) {
        y[c] = (x[c] - mean) * inverse * weight[c] + bias[c];
    }
}

static void forward_slab(const void *arg, size_t task, size_t worker)
{
    const struct layer_norm_job *job = arg;
    const struct layer_norm_shape *s = job->shape;
    (void)worker;
    size_t end = slab_begin(s->M, job->slabs, task + 1);
    for (size_t m = slab_begin(s->M, job->slabs, task); m < end; m++) {
        float mean;
        float inverse;
        statistics_of(job->x + m * s->C, s->C, s->epsilon, &mean, &inverse);
        normalise(job->x + m * s->C, s->C, mean, inverse, job->weight, job->bias,
                  job->y + m * s->C);
        if (job->saved) {
            job->saved[2 * m] = mean;
            job->saved[2 * m + 1] = inverse;
        }
    }
}

void layer_norm_forward(const struct compute *compute, const struct layer_norm_shape *shape,
                        const float *x, const float *weight, const float *bias, float *saved,
                        float *y)
{
    const struct layer_norm_job job = {.shape = shape,
                                       .x = x,
                                       .weight = weight,
                                       .bias = bias,
                                       .saved = saved,
                                       .y = y,
                                       .slabs = slab_count(shape->M, shape->C, SLABS_MAX)};
    pool_run(compute->pool, job.slabs, forward_slab, &job);
}

/* ---- backward ---- */

/* Add a row to the sums of dy xhat and dy. */
SIMD_CLONES static void add_row(const float *restrict x, size_t C, float mean, float inverse,
                                const float *restrict dy, double *restrict product,
                                double *restrict sum)
{
    for (size_t c = 0; c < C; c++) {
        double gradient = (double)dy[c];
        product[c] += gradient * (double)((x[c] - mean) * inverse);
        sum[c] += gradient;
    }
}

SIMD_CLONES static void row_gradient(const float *restrict x, size_t C, float mean, float inverse,
                                     const float *restrict weight, const float *dy, float *dx,
                                     bool accumulate)
{
    double sum;
    double product;
    ROW_SUM(sum, c, C, (double)(weight[c] * dy[c]));
    ROW_SUM(product, c, C, (double)(weight[c] * dy[c]) * (double)((x[c] - mean) * inverse));
    float shift = (float)(sum / (double)C);
    float slope = (float)(product / (double)C);
    if (accumulate) {
        SIMD_IN_PLACE
        for (size_t c = 0; c < C; c++) {
            dx[c] += (weight[c] * dy[c] - shift - (x[c] - mean) * inverse * slope) * inverse;
        }
        return;
    }
    SIMD_IN_PLACE
    for (size_t c = 0; c < C; c++) {
        dx[c] = (weight[c] * dy[c] - shift - (x[c] - mean) * inverse * slope) * inverse;
    }
}

static void backward_slab(const void *arg, size_t task, size_t worker)
{
    const struct layer_norm_job *job = arg;
    const struct layer_norm_shape *s = job->shape;
    (void)worker;
    double *product = job->partial + task * 2 * s->C;
    double *sum = product + s->C;
    for (size_t c = 0; c < 2 * s->C; c++) {
        product[c] = 0.0;
    }
    size_t end = slab_begin(s->M, job->slabs, task + 1);
    for (size_t m = slab_begin(s->M, job->slabs, task); m < end; m++) {
        const float *x = job->x + m * s->C;
        const float *dy = job->dy + m * s->C;
        float mean = job->statistics[2 * m];
        float inverse = job->statistics[2 * m + 1];
        add_row(x, s->C, mean, inverse, dy, product, sum);
        if (job->dx) {
            row_gradient(x, s->C, mean, inverse, job->weight, dy, job->dx + m * s->C,
                         job->accumulate);
        }
    }
}

void layer_norm_backward(const struct compute *compute, const struct layer_norm_shape *shape,
                         const float *x, const float *weight, const float *saved, const float *dy,
                         float *dx, bool accumulate, float *dweight, float *dbias)
{
    const struct layer_norm_job job = {.shape = shape,
                                       .x = x,
                                       .weight = weight,
                                       .dy = dy,
                                       .dx = dx,
                                       .statistics = saved,
                                       .accumulate = accumulate,
                                       .slabs = slab_count(shape->M, shape->C, SLAB_PARTIALS_MAX),
                                       .partial = compute->shared};
    size_t C = shape->C;
    pool_run(compute->pool, job.slabs, backward_slab, &job);
    for (size_t c = 0; dweight && c < C; c++) {
        double product = 0.0;
        double sum = 0.0;
        for (size_t slab = 0; slab < job.slabs; slab++) {
            product += job.partial[slab * 2 * C + c];
            sum += job.partial[slab * 2 * C + C + c];
        }
        dweight[c] = (float)((double)dweight[c] + product);
        dbias[c] = (float)((double)dbias[c] + sum);
    }
}
