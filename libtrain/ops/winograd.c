#include "libtrain/ops/winograd.h"

#include "libtrain/backend/product.h"
#include "libtrain/kernels/winograd_plan.h"
#include "libtrain/ops/partials.h"
#include "libtrain/ops/winograd_transform.h"

_Static_assert(WORKSPACE_PANEL == PRODUCT_PANEL, "plan and kernels agree");

/* ---- forward, and input gradient: the same with rotated weights ---- */

struct filter_job {
    const struct compute *compute;
    const struct winograd_plan *plan;
    struct winograd_field from, to;
    const float *x, *weight, *bias;
    float *y, *points; /* of the weights, in panels */
    bool turned;       /* computes the gradient of the input */
    bool accumulate;
};

static void weights_task(const void *arg, size_t task, size_t worker)
{
    const struct filter_job *job = arg;
    (void)worker;
    if (job->turned) {
        winograd_transform_turned(job->plan, job->weight, task, job->points);
    } else {
        winograd_transform_weights(job->plan, job->weight, task * WINOGRAD_CHANNELS, job->points);
    }
}

/* A task: a block of tiles and a part of the output channels. */
static void filter_task(const void *arg, size_t task, size_t worker)
{
    const struct filter_job *job = arg;
    const struct winograd_plan *plan = job->plan;
    size_t block = task / plan->parts;
    size_t part = task % plan->parts;
    size_t t = slab_begin(plan->tiles, plan->blocks, block);
    size_t tiles = slab_begin(plan->tiles, plan->blocks, block + 1) - t;
    size_t first = slab_begin(plan->panels, plan->parts, part) * PRODUCT_PANEL;
    size_t end = slab_begin(plan->panels, plan->parts, part + 1) * PRODUCT_PANEL;
    end = end > plan->out_points ? plan->out_points : end;
    float *inputs = compute_worker(job->compute, worker);
    size_t in_plane = (size_t)winograd_plane(tiles * plan->in_points);
    size_t out_plane = (size_t)winograd_plane(tiles * (end - first));
    float *outputs = inputs + WINOGRAD_POINTS * in_plane;
    winograd_transform_inputs(plan, &job->from, job->x, t, t + tiles, 0, plan->in_points, inputs);
    for (size_t p = 0; p < WINOGRAD_POINTS; p++) {
        const struct product product = {.M = tiles,
                                        .N = end - first,
                                        .K = plan->in_points,
                                        .A = inputs + p * in_plane,
                                        .a_row = plan->in_points,
                                        .a_step = 1,
                                        .B = winograd_panel(plan, job->points, p, 0, first),
                                        .b_step = PRODUCT_PANEL,
                                        .b_panel = plan->in_points * PRODUCT_PANEL,
                                        .C = outputs + p * out_plane,
                                        .c_row = end - first};
        product_run(&product);
    }
    winograd_transform_outputs(plan, &job->to, outputs, t, t + tiles, first, end - first, job->bias,
                               job->accumulate, job->y);
}

static void run_filters(const struct compute *compute, struct filter_job *job)
{
    const struct winograd_plan *plan = job->plan;
    job->compute = compute;
    job->points = compute->shared;
    pool_run(compute->pool, job->turned ? plan->in_points : plan->out_points / WINOGRAD_CHANNELS,
             weights_task, job);
    pool_run(compute->pool, plan->blocks * plan->parts, filter_task, job);
}

void winograd_forward(const struct compute *compute, const struct conv2d_shape *shape,
                      const float *x, const float *weight, const float *bias, float *y)
{
    struct winograd_plan plan = winograd_plan_of(shape, false);
    struct filter_job job = {.plan = &plan,
                             .from = {shape->H, shape->W, shape->C},
                             .to = {shape->OH, shape->OW, shape->O},
                             .x = x,
                             .weight = weight,
                             .bias = bias,
                             .y = y};
    run_filters(compute, &job);
}

void winograd_backward_data(const struct compute *compute, const struct conv2d_shape *shape,
                            const float *dy, const float *weight, float *dx, bool accumulate)
{
    struct winograd_plan plan = winograd_plan_of(shape, true);
    struct filter_job job = {.plan = &plan,
                             .from = {shape->OH, shape->OW, shape->O},
                             .to = {shape->H, shape->W, shape->C},
                             .x = dy,
                             .weight = weight,
                             .y = dx,
                             .turned = true,
                             .accumulate = accumulate};
    run_filters(compute, &job);
}

/* ---- backward to the weights ---- */

struct weights_job {
    const struct compute *compute;
    const struct winograd_weights_plan *weights;
    struct winograd_field in, out;
    const float *x, *dy;
    float *dweight;
};

/* Part `part` of `parts` of the points' channels, in multiples of WINOGRAD_CHANNELS. */
static void find_part(size_t points, size_t parts, size_t part, size_t *first, size_t *count)
{
    *first = slab_begin(points / WINOGRAD_CHANNELS, parts, part) * WINOGRAD_CHANNELS;
    *count = slab_begin(points / WINOGRAD_CHANNELS, parts, part + 1) * WINOGRAD_CHANNELS - *first;
}

/* Sum over the tiles of one range, for a part of the filters and a part of the channels. */
static void gradient_task(const void *arg, size_t task, size_t worker)
{
    const struct weights_job *job = arg;
    const struct winograd_weights_plan *weights = job->weights;
    const struct winograd_plan *plan = &weights->tiles;
    size_t parts = weights->filter_parts * weights->channel_parts;
    size_t partial = task / parts;
    size_t filter_part = task % parts / weights->channel_parts;
    size_t channel_part = task % weights->channel_parts;
    size_t o, c, filters, channels;
    find_part(plan->out_points, weights->filter_parts, filter_part, &o, &filters);
    find_part(plan->in_points, weights->channel_parts, channel_part, &c, &channels);
    size_t t = slab_begin(plan->tiles, weights->partials, partial);
    size_t end = slab_begin(plan->tiles, weights->partials, partial + 1);
    float *sums = compute_worker(job->compute, worker);
    size_t sum_plane = (size_t)winograd_plane(filters * channels);
    float *gradients = sums + WINOGRAD_POINTS * sum_plane;
    float *inputs =
        gradients + WINOGRAD_POINTS * (size_t)winograd_plane(weights->block_tiles * filters);
    for (bool started = false; t < end; started = true) {
        size_t tiles = end - t < weights->block_tiles ? end - t : weights->block_tiles;
        winograd_transform_gradients(plan, &job->out, job->dy, t, t + tiles, o, filters, gradients);
        winograd_transform_inputs(plan, &job->in, job->x, t, t + tiles, c, channels, inputs);
        for (size_t p = 0; p < WINOGRAD_POINTS; p++) {
            const struct product product = {
                .M = filters,
                .N = channels,
                .K = tiles,
                .A = gradients + p * (size_t)winograd_plane(tiles * filters),
                .a_row = 1,
                .a_step = filters,
                .B = inputs + p * (size_t)winograd_plane(tiles * channels),
                .b_step = channels,
                .b_panel = PRODUCT_PANEL,
                .C = sums + p * sum_plane,
                .c_row = channels,
                .accumulate = started};
            product_run(&product);
        }
        t += tiles;
    }
    size_t count = job->out.C * WINOGRAD_KERNEL * WINOGRAD_KERNEL * job->in.C;
    float *target =
        weights->partials > 1 ? (float *)job->compute->shared + partial * count : job->dweight;
    const struct winograd_part to = {
        .filters = filters, .channels = channels, .O = job->out.C - o, .C = job->in.C, .c = c};
    winograd_transform_weight_gradients(sums, &to, weights->partials == 1,
                                        target + o * WINOGRAD_KERNEL * WINOGRAD_KERNEL * job->in.C);
}

void winograd_backward_weights(const struct compute *compute, const struct conv2d_shape *shape,
                               const float *x, const float *dy, float *dweight)
{
    struct winograd_weights_plan weights = winograd_weights_plan_of(shape);
    const struct weights_job job = {.compute = compute,
                                    .weights = &weights,
                                    .in = {shape->H, shape->W, shape->C},
                                    .out = {shape->OH, shape->OW, shape->O},
                                    .x = x,
                                    .dy = dy,
                                    .dweight = dweight};
    pool_run(compute->pool, weights.partials * weights.filter_parts * weights.channel_parts,
             gradient_task, &job);
    if (weights.partials > 1) {
        partials_add(compute, dweight, compute->shared, weights.partials,
                     shape->O * conv2d_row_floats(shape));
    }
}
