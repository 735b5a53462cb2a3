#include "libtrain/ops/conv2d.h"

#include <string.h>

#include "base/assert.h"
#include "libtrain/backend/gemm.h"
#include "libtrain/kernels/conv2d_kernel.h"
#include "libtrain/ops/channel_sum.h"
#include "libtrain/ops/columns.h"
#include "libtrain/ops/depthwise.h"
#include "libtrain/ops/direct.h"
#include "libtrain/ops/partials.h"
#include "libtrain/ops/pointwise.h"
#include "libtrain/ops/winograd.h"

struct conv2d_job {
    const struct compute *compute;
    const struct conv2d_shape *shape;
    const float *x, *weight, *bias, *dy;
    float *y, *dx, *dweight;
    bool accumulate;
    size_t slabs;
    struct conv2d_weight_slabs weight_slabs;
};

static size_t pixels_of(const struct conv2d_shape *shape)
{
    return shape->N * shape->OH * shape->OW;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* All of group g's columns. */
static struct columns_block group_block(const struct conv2d_shape *shape, size_t g)
{
    size_t channels = shape->C / shape->G;
    return (struct columns_block){
        .position_end = shape->KH * shape->KW, .channel = g * channels, .channels = channels};
}

/* ---- forward ---- */

static void fill_bias(float *y, size_t pixels, size_t O, const float *bias)
{
    for (size_t m = 0; m < pixels; m++) {
        memcpy(y + m * O, bias, O * sizeof(float));
    }
}

static void forward_slab(const void *arg, size_t task, size_t worker)
{
    const struct conv2d_job *job = arg;
    const struct conv2d_shape *s = job->shape;
    size_t row = conv2d_row_floats(s);
    size_t filters = s->O / s->G;
    size_t m = slab_begin(pixels_of(s), job->slabs, task);
    size_t pixels = slab_begin(pixels_of(s), job->slabs, task + 1) - m;
    float *y = job->y + m * s->O;
    float beta = 0.0f;
    if (job->bias) {
        fill_bias(y, pixels, s->O, job->bias);
        beta = 1.0f;
    }
    for (size_t g = 0; g < s->G; g++) {
        float *columns = compute_worker(job->compute, worker);
        struct columns_block block = group_block(s, g);
        columns_gather(s, &block, m, pixels, job->x, columns);
        gemm(false, true, pixels, filters, row, columns, row, job->weight + g * filters * row, row,
             beta, y + g * filters, s->O);
    }
}

static void by_columns_forward(const struct compute *compute, const struct conv2d_shape *shape,
                               const float *x, const float *weight, const float *bias, float *y)
{
    const struct conv2d_job job = {.compute = compute,
                                   .shape = shape,
                                   .x = x,
                                   .weight = weight,
                                   .bias = bias,
                                   .y = y,
                                   .slabs = conv2d_pixel_slabs(shape)};
    pool_run(compute->pool, job.slabs, forward_slab, &job);
}

/* ---- backward to the input ---- */

/* Whole samples per slab, because windows overlap within one. */
static void backward_slab(const void *arg, size_t task, size_t worker)
{
    const struct conv2d_job *job = arg;
    const struct conv2d_shape *s = job->shape;
    float *columns = compute_worker(job->compute, worker);
    size_t row = conv2d_row_floats(s);
    size_t filters = s->O / s->G;
    size_t step = conv2d_step_pixels(s);
    size_t n = slab_begin(s->N, job->slabs, task);
    size_t samples = slab_begin(s->N, job->slabs, task + 1) - n;
    size_t begin = n * s->OH * s->OW;
    size_t end = begin + samples * s->OH * s->OW;
    if (!job->accumulate) {
        memset(job->dx + n * s->H * s->W * s->C, 0, samples * s->H * s->W * s->C * sizeof(float));
    }
    for (size_t m = begin; m < end; m += step) {
        size_t pixels = smaller(step, end - m);
        for (size_t g = 0; g < s->G; g++) {
            struct columns_block block = group_block(s, g);
            gemm(false, false, pixels, row, filters, job->dy + m * s->O + g * filters, s->O,
                 job->weight + g * filters * row, row, 0.0f, columns, row);
            columns_scatter(s, &block, m, pixels, columns, job->dx);
        }
    }
}

static void by_columns_backward_data(const struct compute *compute,
                                     const struct conv2d_shape *shape, const float *dy,
                                     const float *weight, float *dx, bool accumulate)
{
    const struct conv2d_job job = {.compute = compute,
                                   .shape = shape,
                                   .dy = dy,
                                   .weight = weight,
                                   .dx = dx,
                                   .accumulate = accumulate,
                                   .slabs = conv2d_sample_slabs(shape)};
    pool_run(compute->pool, job.slabs, backward_slab, &job);
}

/* ---- backward to the weights ---- */

/* Block `range` of the im2col columns: kernel positions, or channels if there is only one
 * position. */
static struct columns_block range_block(const struct conv2d_shape *s, size_t range, size_t ranges)
{
    struct columns_block block = group_block(s, 0);
    size_t positions = s->KH * s->KW;
    if (positions > 1) {
        block.position_first = slab_begin(positions, ranges, range);
        block.position_end = slab_begin(positions, ranges, range + 1);
    } else {
        block.channel = slab_begin(s->C, ranges, range);
        block.channels = slab_begin(s->C, ranges, range + 1) - block.channel;
    }
    return block;
}

/* dweight[filters][columns of the block] = sum over pixels [m, end); += if `accumulate`. */
static void weight_block(const struct conv2d_job *job, size_t worker,
                         const struct columns_block *block, size_t filter, size_t m, size_t end,
                         float *dweight, bool accumulate)
{
    const struct conv2d_shape *s = job->shape;
    size_t width = (block->position_end - block->position_first) * block->channels;
    size_t filters = s->O / s->G;
    size_t row = conv2d_row_floats(s);
    float *columns = compute_worker(job->compute, worker);
    size_t step = conv2d_step_pixels(s);
    for (; m < end; m += step, accumulate = true) {
        size_t pixels = smaller(step, end - m);
        columns_gather(s, block, m, pixels, job->x, columns);
        gemm(true, false, filters, width, pixels, job->dy + m * s->O + filter, s->O, columns, width,
             accumulate ? 1.0f : 0.0f, dweight, row);
    }
}

static void weights_slab(const void *arg, size_t task, size_t worker)
{
    const struct conv2d_job *job = arg;
    const struct conv2d_shape *s = job->shape;
    size_t row = conv2d_row_floats(s);
    size_t pixels = pixels_of(s);
    if (s->G > 1) {
        struct columns_block block = group_block(s, task);
        size_t filters = s->O / s->G;
        weight_block(job, worker, &block, task * filters, 0, pixels,
                     job->dweight + task * filters * row, true);
        return;
    }
    size_t ranges = job->weight_slabs.ranges;
    size_t partials = job->weight_slabs.partials;
    size_t partial = task / ranges;
    struct columns_block block = range_block(s, task % ranges, ranges);
    float *target =
        partials > 1 ? (float *)job->compute->shared + partial * s->O * row : job->dweight;
    size_t offset = s->KH * s->KW > 1 ? block.position_first * s->C : block.channel;
    weight_block(job, worker, &block, 0, slab_begin(pixels, partials, partial),
                 slab_begin(pixels, partials, partial + 1), target + offset, partials == 1);
}

static void by_columns_backward_weights(const struct compute *compute,
                                        const struct conv2d_shape *shape, const float *x,
                                        const float *dy, float *dweight)
{
    const struct conv2d_job job = {.compute = compute,
                                   .shape = shape,
                                   .x = x,
                                   .dy = dy,
                                   .dweight = dweight,
                                   .weight_slabs = conv2d_weight_slabs(shape)};
    size_t partials = job.weight_slabs.partials;
    pool_run(compute->pool, shape->G > 1 ? shape->G : partials * job.weight_slabs.ranges,
             weights_slab, &job);
    if (partials > 1) {
        partials_add(compute, dweight, compute->shared, partials,
                     shape->O * conv2d_row_floats(shape));
    }
}

/* ---- the kernels ---- */

struct conv2d_functions {
    void (*forward)(const struct compute *compute, const struct conv2d_shape *shape, const float *x,
                    const float *weight, const float *bias, float *y);
    void (*backward_data)(const struct compute *compute, const struct conv2d_shape *shape,
                          const float *dy, const float *weight, float *dx, bool accumulate);
    void (*backward_weights)(const struct compute *compute, const struct conv2d_shape *shape,
                             const float *x, const float *dy, float *dweight);
};

static const struct conv2d_functions *
functions_of(const struct conv2d_shape *shape, struct conv2d_kernels kernels, enum conv2d_pass pass)
{
    static const struct conv2d_functions table[] = {
        [CONV2D_COLUMNS] = {by_columns_forward, by_columns_backward_data,
                            by_columns_backward_weights},
        [CONV2D_POINTWISE] = {pointwise_forward, pointwise_backward_data,
                              pointwise_backward_weights},
        [CONV2D_DEPTHWISE] = {depthwise_forward, depthwise_backward_data,
                              depthwise_backward_weights},
        [CONV2D_DIRECT] = {direct_forward, NULL, direct_backward_weights},
        [CONV2D_WINOGRAD4] = {winograd_forward, winograd_backward_data, winograd_backward_weights},
    };
    size_t kernel = conv2d_kernels_resolve(kernels, shape, CONV2D_BACKEND_OWN).pass[pass];
    ASSERT(kernel < sizeof(table) / sizeof(table[0]) &&
           conv2d_kernel_can((enum conv2d_kernel)kernel, shape, pass));
    return &table[kernel];
}

void conv2d_forward(const struct compute *compute, const struct conv2d_shape *shape,
                    struct conv2d_kernels kernels, const float *x, const float *weight,
                    const float *bias, float *y)
{
    functions_of(shape, kernels, CONV2D_FORWARD)->forward(compute, shape, x, weight, bias, y);
}

void conv2d_backward_data(const struct compute *compute, const struct conv2d_shape *shape,
                          struct conv2d_kernels kernels, const float *dy, const float *weight,
                          float *dx, bool accumulate)
{
    functions_of(shape, kernels, CONV2D_BACKWARD_DATA)
        ->backward_data(compute, shape, dy, weight, dx, accumulate);
}

void conv2d_backward_weights(const struct compute *compute, const struct conv2d_shape *shape,
                             struct conv2d_kernels kernels, const float *x, const float *dy,
                             float *dweight)
{
    functions_of(shape, kernels, CONV2D_BACKWARD_WEIGHTS)
        ->backward_weights(compute, shape, x, dy, dweight);
}

void conv2d_backward_bias(const struct compute *compute, const struct conv2d_shape *shape,
                          const float *dy, float *dbias)
{
    channel_sum(compute, pixels_of(shape), shape->O, dy, dbias);
}

/* ---- layouts ---- */

static void permute(const struct conv2d_shape *shape, const float *from, float *to, bool import)
{
    size_t channels = shape->C / shape->G;
    size_t positions = shape->KH * shape->KW;
    for (size_t o = 0; o < shape->O; o++) {
        for (size_t c = 0; c < channels; c++) {
            for (size_t k = 0; k < positions; k++) {
                size_t theirs = (o * channels + c) * positions + k;
                size_t ours = conv2d_is_depthwise(shape) ? k * shape->C + o
                                                         : (o * positions + k) * channels + c;
                to[import ? ours : theirs] = from[import ? theirs : ours];
            }
        }
    }
}

void conv2d_import(const struct conv2d_shape *shape, const float *from, float *to)
{
    permute(shape, from, to, true);
}

void conv2d_export(const struct conv2d_shape *shape, const float *from, float *to)
{
    permute(shape, from, to, false);
}
