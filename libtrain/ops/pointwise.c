#include "libtrain/ops/pointwise.h"

#include <string.h>

#include "base/size.h"
#include "libtrain/backend/product.h"
#include "libtrain/ops/panels.h"
#include "libtrain/ops/partials.h"

#define BLOCK_FLOATS 16384u /* of one block's inputs: they stay in a cache across the panels */
#define BLOCK_PIXELS_MIN 48u
#define BLOCK_PIXELS_MAX 512u
#define SUM_PIXELS 64u /* of one product of the weight gradient */

_Static_assert(PRODUCT_PANEL == WORKSPACE_PANEL, "workspace and kernels agree");

static size_t pixels_of(const struct conv2d_shape *shape)
{
    return shape->N * shape->H * shape->W;
}

/* ---- forward, and backward to the input: y [pixels][out] = x [pixels][in] B [in][out] ---- */

struct pointwise_job {
    size_t pixels, in, out, slabs;
    const float *x, *weight, *bias;
    float *y, *panels; /* [panel][in][PRODUCT_PANEL] */
    bool transposed;   /* weight is [out][in] */
    bool accumulate;
};

static void multiply_slab(const void *arg, size_t task, size_t worker)
{
    const struct pointwise_job *job = arg;
    (void)worker;
    size_t m = slab_begin(job->pixels, job->slabs, task);
    size_t end = slab_begin(job->pixels, job->slabs, task + 1);
    size_t step = size_clamp(BLOCK_FLOATS / job->in, BLOCK_PIXELS_MIN, BLOCK_PIXELS_MAX);
    for (; m < end; m += step) {
        size_t rows = end - m < step ? end - m : step;
        float *y = job->y + m * job->out;
        for (size_t r = 0; job->bias && r < rows; r++) {
            memcpy(y + r * job->out, job->bias, job->out * sizeof(float));
        }
        const struct product product = {.M = rows,
                                        .N = job->out,
                                        .K = job->in,
                                        .A = job->x + m * job->in,
                                        .a_row = job->in,
                                        .a_step = 1,
                                        .B = job->panels,
                                        .b_step = PRODUCT_PANEL,
                                        .b_panel = job->in * PRODUCT_PANEL,
                                        .C = y,
                                        .c_row = job->out,
                                        .accumulate = job->accumulate || job->bias};
        product_run(&product);
    }
}

static void multiply(const struct compute *compute, struct pointwise_job *job)
{
    job->panels = compute->shared;
    panels_pack(compute, job->weight, job->in, job->out, job->transposed, job->panels);
    pool_run(compute->pool, job->slabs, multiply_slab, job);
}

void pointwise_forward(const struct compute *compute, const struct conv2d_shape *shape,
                       const float *x, const float *weight, const float *bias, float *y)
{
    struct pointwise_job job = {.pixels = pixels_of(shape),
                                .in = shape->C,
                                .out = shape->O,
                                .slabs = conv2d_pointwise_slabs(shape),
                                .x = x,
                                .weight = weight,
                                .bias = bias,
                                .y = y,
                                .transposed = true};
    multiply(compute, &job);
}

void pointwise_backward_data(const struct compute *compute, const struct conv2d_shape *shape,
                             const float *dy, const float *weight, float *dx, bool accumulate)
{
    struct pointwise_job job = {.pixels = pixels_of(shape),
                                .in = shape->O,
                                .out = shape->C,
                                .slabs = conv2d_pointwise_slabs(shape),
                                .x = dy,
                                .weight = weight,
                                .y = dx,
                                .accumulate = accumulate};
    multiply(compute, &job);
}

/* ---- backward to the weights ---- */

struct gradient_job {
    const struct compute *compute;
    const struct conv2d_shape *shape;
    struct conv2d_weight_slabs slabs;
    const float *x, *dy;
    float *dweight;
};

/* One range of channels, summed over one range of pixels. */
static void gradient_slab(const void *arg, size_t task, size_t worker)
{
    const struct gradient_job *job = arg;
    const struct conv2d_shape *s = job->shape;
    (void)worker;
    size_t partial = task / job->slabs.ranges;
    size_t range = task % job->slabs.ranges;
    size_t c = slab_begin(s->C, job->slabs.ranges, range);
    size_t channels = slab_begin(s->C, job->slabs.ranges, range + 1) - c;
    size_t m = slab_begin(pixels_of(s), job->slabs.partials, partial);
    size_t end = slab_begin(pixels_of(s), job->slabs.partials, partial + 1);
    bool apart = job->slabs.partials > 1;
    float *sum = apart ? (float *)job->compute->shared + partial * s->O * s->C : job->dweight;
    for (bool accumulate = !apart; m < end; m += SUM_PIXELS, accumulate = true) {
        const struct product product = {.M = s->O,
                                        .N = channels,
                                        .K = end - m < SUM_PIXELS ? end - m : SUM_PIXELS,
                                        .A = job->dy + m * s->O,
                                        .a_row = 1,
                                        .a_step = s->O,
                                        .B = job->x + m * s->C + c,
                                        .b_step = s->C,
                                        .b_panel = PRODUCT_PANEL,
                                        .C = sum + c,
                                        .c_row = s->C,
                                        .accumulate = accumulate};
        product_run(&product);
    }
}

void pointwise_backward_weights(const struct compute *compute, const struct conv2d_shape *shape,
                                const float *x, const float *dy, float *dweight)
{
    const struct gradient_job job = {.compute = compute,
                                     .shape = shape,
                                     .slabs = conv2d_weight_slabs(shape),
                                     .x = x,
                                     .dy = dy,
                                     .dweight = dweight};
    pool_run(compute->pool, job.slabs.partials * job.slabs.ranges, gradient_slab, &job);
    if (job.slabs.partials > 1) {
        partials_add(compute, dweight, compute->shared, job.slabs.partials, shape->O * shape->C);
    }
}
