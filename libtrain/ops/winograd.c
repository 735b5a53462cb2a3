#include "libtrain/ops/winograd.h"

#include "libtrain/backend/product.h"
#include "libtrain/backend/simd.h"
#include "libtrain/model/winograd_plan.h"
#include "libtrain/ops/partials.h"

_Static_assert(WINOGRAD_CHANNELS == SIMD_FLOATS && WORKSPACE_PANEL == PRODUCT_PANEL, "plan and kernels agree");

#define CHANNELS SIMD_FLOATS /* that are transformed at once */
#define TILE WINOGRAD_TILE
#define PATCH (TILE + 2)
#define POINTS WINOGRAD_POINTS
#define KERNEL 3

/* ---- one line of a transform; the points are 0, 1, -1, 2, -2 and infinity ---- */

enum line {
    LINE_INPUT,           /* B^T: 6 inputs to 6 points */
    LINE_WEIGHTS,         /* G: 3 weights to 6 points */
    LINE_OUTPUT,          /* A^T: 6 points to 4 outputs */
    LINE_OUTPUT_GRADIENT, /* A: 4 gradients of outputs to 6 points */
    LINE_WEIGHT_GRADIENT, /* G^T: 6 points to 3 gradients of weights */
};

#define INLINE static inline __attribute__((always_inline))

/* in[0], in[s], in[2 s], ... to out[0], out[s], ... with the steps i and o. */
INLINE void transform_line(enum line line, const simd *in, size_t i, simd *out, size_t o)
{
    switch (line) {
    case LINE_INPUT: {
        simd even = in[4 * i] - 4.0f * in[2 * i];
        simd odd = in[3 * i] - 4.0f * in[i];
        simd even2 = in[4 * i] - in[2 * i];
        simd odd2 = 2.0f * (in[3 * i] - in[i]);
        out[0] = 4.0f * (in[0] - in[2 * i]) + even2;
        out[o] = even + odd;
        out[2 * o] = even - odd;
        out[3 * o] = even2 + odd2;
        out[4 * o] = even2 - odd2;
        out[5 * o] = 4.0f * (in[i] - in[3 * i]) + (in[5 * i] - in[3 * i]);
        break;
    }
    case LINE_WEIGHTS: {
        simd even = (in[0] + in[2 * i]) * (1.0f / 6.0f);
        simd odd = in[i] * (1.0f / 6.0f);
        simd even2 = in[0] * (1.0f / 24.0f) + in[2 * i] * (1.0f / 6.0f);
        simd odd2 = in[i] * (1.0f / 12.0f);
        out[0] = in[0] * 0.25f;
        out[o] = -even - odd;
        out[2 * o] = odd - even;
        out[3 * o] = even2 + odd2;
        out[4 * o] = even2 - odd2;
        out[5 * o] = in[2 * i];
        break;
    }
    case LINE_OUTPUT: {
        simd even = in[i] + in[2 * i];
        simd odd = in[i] - in[2 * i];
        simd even2 = in[3 * i] + in[4 * i];
        simd odd2 = in[3 * i] - in[4 * i];
        out[0] = in[0] + even + even2;
        out[o] = odd + 2.0f * odd2;
        out[2 * o] = even + 4.0f * even2;
        out[3 * o] = odd + 8.0f * odd2 + in[5 * i];
        break;
    }
    case LINE_OUTPUT_GRADIENT: {
        simd even = in[0] + in[2 * i];
        simd odd = in[i] + in[3 * i];
        simd even2 = in[0] + 4.0f * in[2 * i];
        simd odd2 = 2.0f * in[i] + 8.0f * in[3 * i];
        out[0] = in[0];
        out[o] = even + odd;
        out[2 * o] = even - odd;
        out[3 * o] = even2 + odd2;
        out[4 * o] = even2 - odd2;
        out[5 * o] = in[3 * i];
        break;
    }
    case LINE_WEIGHT_GRADIENT: {
        simd even = (in[i] + in[2 * i]) * (1.0f / 6.0f);
        simd even2 = in[3 * i] + in[4 * i];
        out[0] = in[0] * 0.25f - even + even2 * (1.0f / 24.0f);
        out[o] = (in[2 * i] - in[i]) * (1.0f / 6.0f) + (in[3 * i] - in[4 * i]) * (1.0f / 12.0f);
        out[2 * o] = even2 * (1.0f / 6.0f) - even + in[5 * i];
        break;
    }
    }
}

/* in[from][from] to out[to][to]: columns, then rows. */
INLINE void transform(enum line line, size_t from, size_t to, const simd *in, simd *out)
{
    simd half[POINTS]; /* [to][from] */
    for (size_t j = 0; j < from; j++) {
        transform_line(line, in + j, from, half + j, from);
    }
    for (size_t i = 0; i < to; i++) {
        transform_line(line, half + i * from, 1, out + i * to, 1);
    }
}

/* ---- tiles ---- */

/* A tensor [N][H][W][C] that is read or written in squares. */
struct field {
    size_t H, W, C;
};

/* Where tile number t lies: tiles are numbered through the output's rows and samples. */
struct tile {
    size_t n, row, column; /* of the sample's tiles */
};

INLINE struct tile tile_at(const struct winograd_plan *plan, size_t t)
{
    return (struct tile){.n = t / plan->tile_columns / plan->tile_rows,
                         .row = t / plan->tile_columns % plan->tile_rows,
                         .column = t % plan->tile_columns};
}

INLINE void tile_move(const struct winograd_plan *plan, struct tile *tile)
{
    if (++tile->column == plan->tile_columns) {
        tile->column = 0;
        if (++tile->row == plan->tile_rows) {
            tile->row = 0;
            tile->n++;
        }
    }
}

/* A square of side x side pixels at (h, w), zero outside the field; x is the sample's pixel (0, 0). */
INLINE void load_square(const struct field *field, const float *x, ptrdiff_t h, ptrdiff_t w, size_t side, simd *out)
{
    bool whole =
        h >= 0 && w >= 0 && h + (ptrdiff_t)side <= (ptrdiff_t)field->H && w + (ptrdiff_t)side <= (ptrdiff_t)field->W;
    for (size_t i = 0; i < side; i++) {
        ptrdiff_t row = h + (ptrdiff_t)i;
        bool row_inside = whole || (row >= 0 && row < (ptrdiff_t)field->H);
        for (size_t j = 0; j < side; j++) {
            ptrdiff_t column = w + (ptrdiff_t)j;
            bool inside = whole || (row_inside && column >= 0 && column < (ptrdiff_t)field->W);
            if (inside) {
                out[i * side + j] = *(const simd *)(x + (row * (ptrdiff_t)field->W + column) * (ptrdiff_t)field->C);
            } else {
                out[i * side + j] = (simd){0};
            }
        }
    }
}

/* ---- transforms of blocks ---- */

/* Tiles [t, end) of x, channels [c, c + channels), to points [POINTS][tiles][channels]. */
SIMD_CLONES static void transform_inputs(const struct winograd_plan *plan, const struct field *field, const float *x,
                                         size_t t, size_t end, size_t c, size_t channels, float *points)
{
    size_t tiles = end - t;
    size_t plane = winograd_plane(tiles * channels);
    struct tile tile = tile_at(plan, t);
    for (size_t i = 0; i < tiles; i++, tile_move(plan, &tile)) {
        const float *from = x + tile.n * field->H * field->W * field->C + c;
        ptrdiff_t h = (ptrdiff_t)(tile.row * TILE) - (ptrdiff_t)plan->padding;
        ptrdiff_t w = (ptrdiff_t)(tile.column * TILE) - (ptrdiff_t)plan->padding;
        for (size_t k = 0; k < channels; k += CHANNELS) {
            simd in[POINTS];
            simd out[POINTS];
            load_square(field, from + k, h, w, PATCH, in);
            transform(LINE_INPUT, PATCH, PATCH, in, out);
            for (size_t p = 0; p < POINTS; p++) {
                *(simd *)(points + p * plane + i * channels + k) = out[p];
            }
        }
    }
}

/* The same of the output's gradient: squares of TILE x TILE. */
SIMD_CLONES static void transform_gradients(const struct winograd_plan *plan, const struct field *field,
                                            const float *dy, size_t t, size_t end, size_t c, size_t channels,
                                            float *points)
{
    size_t tiles = end - t;
    size_t plane = winograd_plane(tiles * channels);
    struct tile tile = tile_at(plan, t);
    for (size_t i = 0; i < tiles; i++, tile_move(plan, &tile)) {
        const float *from = dy + tile.n * field->H * field->W * field->C + c;
        for (size_t k = 0; k < channels; k += CHANNELS) {
            simd in[POINTS];
            simd out[POINTS];
            load_square(field, from + k, (ptrdiff_t)(tile.row * TILE), (ptrdiff_t)(tile.column * TILE), TILE, in);
            transform(LINE_OUTPUT_GRADIENT, TILE, PATCH, in, out);
            for (size_t p = 0; p < POINTS; p++) {
                *(simd *)(points + p * plane + i * channels + k) = out[p];
            }
        }
    }
}

/* points [POINTS][tiles][channels] to tiles [t, end) of y, channels [c, c + channels). */
SIMD_CLONES static void transform_outputs(const struct winograd_plan *plan, const struct field *field,
                                          const float *points, size_t t, size_t end, size_t c, size_t channels,
                                          const float *bias, bool accumulate, float *y)
{
    size_t tiles = end - t;
    size_t plane = winograd_plane(tiles * channels);
    struct tile tile = tile_at(plan, t);
    for (size_t i = 0; i < tiles; i++, tile_move(plan, &tile)) {
        size_t h = tile.row * TILE;
        size_t w = tile.column * TILE;
        size_t rows = field->H - h < TILE ? field->H - h : TILE;
        size_t columns = field->W - w < TILE ? field->W - w : TILE;
        float *to = y + ((tile.n * field->H + h) * field->W + w) * field->C + c;
        for (size_t k = 0; k < channels; k += CHANNELS) {
            simd in[POINTS];
            simd out[TILE * TILE];
            for (size_t p = 0; p < POINTS; p++) {
                in[p] = *(const simd *)(points + p * plane + i * channels + k);
            }
            transform(LINE_OUTPUT, PATCH, TILE, in, out);
            simd shift = {0};
            if (bias) {
                shift = *(const simd *)(bias + c + k);
            }
            for (size_t row = 0; row < rows; row++) {
                for (size_t column = 0; column < columns; column++) {
                    simd *target = (simd *)(to + (row * field->W + column) * field->C + k);
                    simd value = out[row * TILE + column] + shift;
                    if (accumulate) {
                        value += *target;
                    }
                    *target = value;
                }
            }
        }
    }
}

/* Exchange the off-diagonal parts of rows i and i + step, where lanes with that bit set (high) meet those without. */
#define EXCHANGE(row, step, low, high)                                                                                 \
    for (size_t i = 0; i < CHANNELS; i++) {                                                                            \
        if ((i & (step)) == 0) {                                                                                       \
            simd first = __builtin_shufflevector((row)[i], (row)[i + (step)], low);                                    \
            (row)[i + (step)] = __builtin_shufflevector((row)[i], (row)[i + (step)], high);                            \
            (row)[i] = first;                                                                                          \
        }                                                                                                              \
    }
#define LOW_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31

/* [CHANNELS][CHANNELS], in place. */
INLINE void transpose(simd *row){EXCHANGE(row, 1, LOW_1, HIGH_1) EXCHANGE(row, 2, LOW_2, HIGH_2)
                                     EXCHANGE(row, 4, LOW_4, HIGH_4) EXCHANGE(row, 8, LOW_8, HIGH_8)}

/* Where the weights of point p from channel `in` to channels [out, ...) of a panel lie in [POINTS][panels][in][panel].
 */
INLINE float *panel_of(const struct winograd_plan *plan, float *points, size_t p, size_t in, size_t out)
{
    size_t panel = out / PRODUCT_PANEL;
    size_t plane = winograd_plane(plan->panels * PRODUCT_PANEL * plan->in);
    return points + p * plane + (panel * plan->in + in) * PRODUCT_PANEL + out % PRODUCT_PANEL;
}

/* weight [O][3][3][C] for the forward pass: filters [o, o + CHANNELS) become the columns of panels. */
SIMD_CLONES static void transform_weights(const struct winograd_plan *plan, const float *weight, size_t o,
                                          float *points)
{
    size_t C = plan->in;
    for (size_t c = 0; c < C; c += CHANNELS) {
        simd square[KERNEL * KERNEL][CHANNELS]; /* [position][filter], then [position][channel] */
        for (size_t position = 0; position < KERNEL * KERNEL; position++) {
            for (size_t j = 0; j < CHANNELS; j++) {
                square[position][j] = *(const simd *)(weight + ((o + j) * KERNEL * KERNEL + position) * C + c);
            }
            transpose(square[position]);
        }
        for (size_t j = 0; j < CHANNELS; j++) {
            simd in[KERNEL * KERNEL];
            simd out[POINTS];
            for (size_t position = 0; position < KERNEL * KERNEL; position++) {
                in[position] = square[position][j];
            }
            transform(LINE_WEIGHTS, KERNEL, PATCH, in, out);
            for (size_t p = 0; p < POINTS; p++) {
                *(simd *)panel_of(plan, points, p, c + j, o) = out[p];
            }
        }
    }
}

/* weight [O][3][3][C] for the gradient of the input: filter o, turned by 180 degrees, is a row of the panels. */
SIMD_CLONES static void transform_turned(const struct winograd_plan *plan, const float *weight, size_t o, float *points)
{
    size_t C = plan->out;
    for (size_t c = 0; c < C; c += CHANNELS) {
        simd in[KERNEL * KERNEL];
        simd out[POINTS];
        for (size_t position = 0; position < KERNEL * KERNEL; position++) {
            in[KERNEL * KERNEL - 1 - position] = *(const simd *)(weight + (o * KERNEL * KERNEL + position) * C + c);
        }
        transform(LINE_WEIGHTS, KERNEL, PATCH, in, out);
        for (size_t p = 0; p < POINTS; p++) {
            *(simd *)panel_of(plan, points, p, o, c) = out[p];
        }
    }
}

/* points [POINTS][filters][channels] to dweight [filters][3][3][C]. */
SIMD_CLONES static void transform_weight_gradients(const float *points, size_t filters, size_t channels, size_t C,
                                                   bool accumulate, float *dweight)
{
    size_t plane = winograd_plane(filters * channels);
    for (size_t o = 0; o < filters; o++) {
        for (size_t c = 0; c < channels; c += CHANNELS) {
            simd in[POINTS];
            simd out[KERNEL * KERNEL];
            for (size_t p = 0; p < POINTS; p++) {
                in[p] = *(const simd *)(points + p * plane + o * channels + c);
            }
            transform(LINE_WEIGHT_GRADIENT, PATCH, KERNEL, in, out);
            for (size_t position = 0; position < KERNEL * KERNEL; position++) {
                simd *target = (simd *)(dweight + (o * KERNEL * KERNEL + position) * C + c);
                if (accumulate) {
                    out[position] += *target;
                }
                *target = out[position];
            }
        }
    }
}

/* ---- forward, and backward to the input: the same with turned weights ---- */

struct filter_job {
    const struct compute *compute;
    const struct winograd_plan *plan;
    struct field from, to;
    const float *x, *weight, *bias;
    float *y, *points; /* of the weights, in panels */
    bool turned;       /* the gradient of the input */
    bool accumulate;
};

static void weights_task(const void *arg, size_t task, size_t worker)
{
    const struct filter_job *job = arg;
    (void)worker;
    if (job->turned) {
        transform_turned(job->plan, job->weight, task, job->points);
    } else {
        transform_weights(job->plan, job->weight, task * CHANNELS, job->points);
    }
}

/* A block of tiles and a part of the outputs' channels. */
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
    end = end > plan->out ? plan->out : end;
    float *inputs = compute_worker(job->compute, worker);
    size_t in_plane = winograd_plane(tiles * plan->in);
    size_t out_plane = winograd_plane(tiles * (end - first));
    float *outputs = inputs + POINTS * in_plane;
    transform_inputs(plan, &job->from, job->x, t, t + tiles, 0, plan->in, inputs);
    for (size_t p = 0; p < POINTS; p++) {
        const struct product product = {.M = tiles,
                                        .N = end - first,
                                        .K = plan->in,
                                        .A = inputs + p * in_plane,
                                        .a_row = plan->in,
                                        .a_step = 1,
                                        .B = panel_of(plan, job->points, p, 0, first),
                                        .b_step = PRODUCT_PANEL,
                                        .b_panel = plan->in * PRODUCT_PANEL,
                                        .C = outputs + p * out_plane,
                                        .c_row = end - first};
        product_run(&product);
    }
    transform_outputs(plan, &job->to, outputs, t, t + tiles, first, end - first, job->bias, job->accumulate, job->y);
}

static void run_filters(const struct compute *compute, struct filter_job *job)
{
    const struct winograd_plan *plan = job->plan;
    job->compute = compute;
    job->points = compute->shared;
    pool_run(compute->pool, job->turned ? plan->in : plan->out / CHANNELS, weights_task, job);
    pool_run(compute->pool, plan->blocks * plan->parts, filter_task, job);
}

void winograd_forward(const struct compute *compute, const struct conv2d_shape *shape, const float *x,
                      const float *weight, const float *bias, float *y)
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

void winograd_backward_data(const struct compute *compute, const struct conv2d_shape *shape, const float *dy,
                            const float *weight, float *dx, bool accumulate)
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
    struct field in, out;
    const float *x, *dy;
    float *dweight;
};

/* The sum over the tiles of one range, for a part of the filters and of the channels. */
static void gradient_task(const void *arg, size_t task, size_t worker)
{
    const struct weights_job *job = arg;
    const struct winograd_weights_plan *weights = job->weights;
    const struct winograd_plan *plan = &weights->tiles;
    size_t parts = weights->filter_parts * weights->channel_parts;
    size_t partial = task / parts;
    size_t filter_part = task % parts / weights->channel_parts;
    size_t channel_part = task % weights->channel_parts;
    size_t o = slab_begin(job->out.C / CHANNELS, weights->filter_parts, filter_part) * CHANNELS;
    size_t filters = slab_begin(job->out.C / CHANNELS, weights->filter_parts, filter_part + 1) * CHANNELS - o;
    size_t c = slab_begin(job->in.C / CHANNELS, weights->channel_parts, channel_part) * CHANNELS;
    size_t channels = slab_begin(job->in.C / CHANNELS, weights->channel_parts, channel_part + 1) * CHANNELS - c;
    size_t t = slab_begin(plan->tiles, weights->partials, partial);
    size_t end = slab_begin(plan->tiles, weights->partials, partial + 1);
    float *sums = compute_worker(job->compute, worker);
    size_t sum_plane = winograd_plane(filters * channels);
    float *gradients = sums + POINTS * sum_plane;
    float *inputs = gradients + POINTS * winograd_plane(weights->block_tiles * filters);
    for (bool started = false; t < end; started = true) {
        size_t tiles = end - t < weights->block_tiles ? end - t : weights->block_tiles;
        transform_gradients(plan, &job->out, job->dy, t, t + tiles, o, filters, gradients);
        transform_inputs(plan, &job->in, job->x, t, t + tiles, c, channels, inputs);
        for (size_t p = 0; p < POINTS; p++) {
            const struct product product = {.M = filters,
                                            .N = channels,
                                            .K = tiles,
                                            .A = gradients + p * winograd_plane(tiles * filters),
                                            .a_row = 1,
                                            .a_step = filters,
                                            .B = inputs + p * winograd_plane(tiles * channels),
                                            .b_step = channels,
                                            .b_panel = PRODUCT_PANEL,
                                            .C = sums + p * sum_plane,
                                            .c_row = channels,
                                            .accumulate = started};
            product_run(&product);
        }
        t += tiles;
    }
    size_t count = job->out.C * KERNEL * KERNEL * job->in.C;
    float *target = weights->partials > 1 ? (float *)job->compute->shared + partial * count : job->dweight;
    transform_weight_gradients(sums, filters, channels, job->in.C, weights->partials == 1,
                               target + o * KERNEL * KERNEL * job->in.C + c);
}

void winograd_backward_weights(const struct compute *compute, const struct conv2d_shape *shape, const float *x,
                               const float *dy, float *dweight)
{
    struct winograd_weights_plan weights = winograd_weights_plan_of(shape);
    const struct weights_job job = {.compute = compute,
                                    .weights = &weights,
                                    .in = {shape->H, shape->W, shape->C},
                                    .out = {shape->OH, shape->OW, shape->O},
                                    .x = x,
                                    .dy = dy,
                                    .dweight = dweight};
    pool_run(compute->pool, weights.partials * weights.filter_parts * weights.channel_parts, gradient_task, &job);
    if (weights.partials > 1) {
        partials_add(compute, dweight, compute->shared, weights.partials, shape->O * conv2d_row_floats(shape));
    }
}
