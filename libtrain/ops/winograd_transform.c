#include "libtrain/ops/winograd_transform.h"

#include "libtrain/backend/simd.h"

_Static_assert(WINOGRAD_CHANNELS == SIMD_FLOATS, "plan and kernels agree");

#define CHANNELS SIMD_FLOATS /* channels transformed at once */
#define TILE WINOGRAD_TILE
#define PATCH (TILE + 2)
#define POINTS WINOGRAD_POINTS
#define KERNEL WINOGRAD_KERNEL

/* ---- one line of a transform; the points are 0, 1, -1, 2, -2 and infinity ---- */

enum line {
    LINE_INPUT,           /* B^T: 6 inputs to 6 points */
    LINE_WEIGHTS,         /* G: 3 weights to 6 points */
    LINE_OUTPUT,          /* A^T: 6 points to 4 outputs */
    LINE_OUTPUT_GRADIENT, /* A: 4 gradients of outputs to 6 points */
    LINE_WEIGHT_GRADIENT, /* G^T: 6 points to 3 gradients of weights */
};

#define INLINE static inline __attribute__((always_inline))

/* Channels of the vector that begins at channel c of C. */
INLINE size_t lanes_at(size_t c, size_t C)
{
    return c >= C ? 0 : C - c < CHANNELS ? C - c : CHANNELS;
}

/* Load the first lanes; the others are 0. */
INLINE void load(const float *from, size_t lanes, simd *out)
{
    if (lanes == CHANNELS) {
        *out = *(const simd *)from;
        return;
    }
    *out = (simd){0};
    for (size_t i = 0; i < lanes; i++) {
        (*out)[i] = from[i];
    }
}

/* Store the first lanes, added to those in memory if it accumulates. */
INLINE void store(float *to, const simd *value, size_t lanes, bool accumulate)
{
    if (lanes == CHANNELS) {
        simd sum = *value;
        if (accumulate) {
            sum += *(const simd *)to;
        }
        *(simd *)to = sum;
        return;
    }
    for (size_t i = 0; i < lanes; i++) {
        to[i] = accumulate ? (*value)[i] + to[i] : (*value)[i];
    }
}

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

/* The position of tile t: tiles are numbered through the output's rows and samples. */
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

/* Read a square of side x side at (h, w), zero outside the field. x: the sample's pixel (0, 0). */
INLINE void load_square(const struct winograd_field *field, const float *x, size_t lanes,
                        ptrdiff_t h, ptrdiff_t w, size_t side, simd *out)
{
    bool whole = h >= 0 && w >= 0 && h + (ptrdiff_t)side <= (ptrdiff_t)field->H &&
                 w + (ptrdiff_t)side <= (ptrdiff_t)field->W;
    for (size_t i = 0; i < side; i++) {
        ptrdiff_t row = h + (ptrdiff_t)i;
        bool row_inside = whole || (row >= 0 && row < (ptrdiff_t)field->H);
        for (size_t j = 0; j < side; j++) {
            ptrdiff_t column = w + (ptrdiff_t)j;
            bool inside = whole || (row_inside && column >= 0 && column < (ptrdiff_t)field->W);
            if (inside) {
                load(x + (row * (ptrdiff_t)field->W + column) * (ptrdiff_t)field->C, lanes,
                     &out[i * side + j]);
            } else {
                out[i * side + j] = (simd){0};
            }
        }
    }
}

/* ---- transforms of blocks ---- */

/* Tiles [t, end) of x, channels [c, c + channels), to points [POINTS][tiles][channels]. */
SIMD_CLONES void winograd_transform_inputs(const struct winograd_plan *plan,
                                           const struct winograd_field *field, const float *x,
                                           size_t t, size_t end, size_t c, size_t channels,
                                           float *points)
{
    size_t tiles = end - t;
    size_t plane = (size_t)winograd_plane(tiles * channels);
    struct tile tile = tile_at(plan, t);
    for (size_t i = 0; i < tiles; i++, tile_move(plan, &tile)) {
        const float *from = x + tile.n * field->H * field->W * field->C + c;
        ptrdiff_t h = (ptrdiff_t)(tile.row * TILE) - (ptrdiff_t)plan->padding;
        ptrdiff_t w = (ptrdiff_t)(tile.column * TILE) - (ptrdiff_t)plan->padding;
        for (size_t k = 0; k < channels; k += CHANNELS) {
            simd in[POINTS];
            simd out[POINTS];
            load_square(field, from + k, lanes_at(c + k, field->C), h, w, PATCH, in);
            transform(LINE_INPUT, PATCH, PATCH, in, out);
            for (size_t p = 0; p < POINTS; p++) {
                *(simd *)(points + p * plane + i * channels + k) = out[p];
            }
        }
    }
}

/* The same transform of the output's gradient, in squares of TILE x TILE. */
SIMD_CLONES void winograd_transform_gradients(const struct winograd_plan *plan,
                                              const struct winograd_field *field, const float *dy,
                                              size_t t, size_t end, size_t c, size_t channels,
                                              float *points)
{
    size_t tiles = end - t;
    size_t plane = (size_t)winograd_plane(tiles * channels);
    struct tile tile = tile_at(plan, t);
    for (size_t i = 0; i < tiles; i++, tile_move(plan, &tile)) {
        const float *from = dy + tile.n * field->H * field->W * field->C + c;
        for (size_t k = 0; k < channels; k += CHANNELS) {
            simd in[POINTS];
            simd out[POINTS];
            load_square(field, from + k, lanes_at(c + k, field->C), (ptrdiff_t)(tile.row * TILE),
                        (ptrdiff_t)(tile.column * TILE), TILE, in);
            transform(LINE_OUTPUT_GRADIENT, TILE, PATCH, in, out);
            for (size_t p = 0; p < POINTS; p++) {
                *(simd *)(points + p * plane + i * channels + k) = out[p];
            }
        }
    }
}

/* points [POINTS][tiles][channels] to tiles [t, end) of y, channels [c, c + channels). */
SIMD_CLONES void winograd_transform_outputs(const struct winograd_plan *plan,
                                            const struct winograd_field *field, const float *points,
                                            size_t t, size_t end, size_t c, size_t channels,
                                            const float *bias, bool accumulate, float *y)
{
    size_t tiles = end - t;
    size_t plane = (size_t)winograd_plane(tiles * channels);
    struct tile tile = tile_at(plan, t);
    for (size_t i = 0; i < tiles; i++, tile_move(plan, &tile)) {
        size_t h = tile.row * TILE;
        size_t w = tile.column * TILE;
        size_t rows = field->H - h < TILE ? field->H - h : TILE;
        size_t columns = field->W - w < TILE ? field->W - w : TILE;
        float *to = y + ((tile.n * field->H + h) * field->W + w) * field->C + c;
        for (size_t k = 0; k < channels; k += CHANNELS) {
            const size_t lanes = lanes_at(c + k, field->C);
            simd in[POINTS];
            simd out[TILE * TILE];
            for (size_t p = 0; p < POINTS; p++) {
                in[p] = *(const simd *)(points + p * plane + i * channels + k);
            }
            transform(LINE_OUTPUT, PATCH, TILE, in, out);
            simd shift = {0};
            if (bias) {
                load(bias + c + k, lanes, &shift);
            }
            for (size_t row = 0; row < rows; row++) {
                for (size_t column = 0; column < columns; column++) {
                    float *target = to + (row * field->W + column) * field->C + k;
                    simd value = out[row * TILE + column] + shift;
                    store(target, &value, lanes, accumulate);
                }
            }
        }
    }
}

/* Exchange the off-diagonal parts of rows i and i + step: the lanes of row i whose index has the
 * bit `step` set, and the lanes of row i + step whose index does not. low and high select the lanes
 * of the two new rows. */
#define EXCHANGE(row, step, low, high)                                                             \
    do {                                                                                           \
        for (size_t i = 0; i < CHANNELS; i++) {                                                    \
            if ((i & (step)) == 0) {                                                               \
                simd first = __builtin_shufflevector((row)[i], (row)[i + (step)], low);            \
                (row)[i + (step)] = __builtin_shufflevector((row)[i], (row)[i + (step)], high);    \
                (row)[i] = first;                                                                  \
            }                                                                                      \
        }                                                                                          \
    } while (0)
#define LOW_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31

/* [CHANNELS][CHANNELS], in place. */
INLINE void transpose(simd *row)
{
    EXCHANGE(row, 1, LOW_1, HIGH_1);
    EXCHANGE(row, 2, LOW_2, HIGH_2);
    EXCHANGE(row, 4, LOW_4, HIGH_4);
    EXCHANGE(row, 8, LOW_8, HIGH_8);
}

/* weight [O][3][3][C] for the forward pass: filters [o, o + CHANNELS) become panel columns. */
SIMD_CLONES void winograd_transform_weights(const struct winograd_plan *plan, const float *weight,
                                            size_t o, float *points)
{
    size_t C = plan->in;
    for (size_t c = 0; c < C; c += CHANNELS) {
        const size_t lanes = lanes_at(c, C);
        simd square[KERNEL * KERNEL][CHANNELS]; /* [position][filter], then [position][channel] */
        for (size_t position = 0; position < KERNEL * KERNEL; position++) {
            for (size_t j = 0; j < CHANNELS; j++) {
                load(weight + ((o + j) * KERNEL * KERNEL + position) * C + c,
                     o + j < plan->out ? lanes : 0, &square[position][j]);
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
                *(simd *)winograd_panel(plan, points, p, c + j, o) = out[p];
            }
        }
    }
}

/* weight [O][3][3][C] for the input gradient: filter o, rotated by 180 degrees, is a row of the
 * panels. */
SIMD_CLONES void winograd_transform_turned(const struct winograd_plan *plan, const float *weight,
                                           size_t o, float *points)
{
    size_t C = plan->out;
    for (size_t c = 0; c < C; c += CHANNELS) {
        const size_t lanes = o < plan->in ? lanes_at(c, C) : 0;
        simd in[KERNEL * KERNEL];
        simd out[POINTS];
        for (size_t position = 0; position < KERNEL * KERNEL; position++) {
            load(weight + (o * KERNEL * KERNEL + position) * C + c, lanes,
                 &in[KERNEL * KERNEL - 1 - position]);
        }
        transform(LINE_WEIGHTS, KERNEL, PATCH, in, out);
        for (size_t p = 0; p < POINTS; p++) {
            *(simd *)winograd_panel(plan, points, p, o, c) = out[p];
        }
    }
}

/* points [POINTS][filters][channels] to dweight [O][3][3][C], channels [c, c + channels). */
SIMD_CLONES void winograd_transform_weight_gradients(const float *points,
                                                     const struct winograd_part *part,
                                                     bool accumulate, float *dweight)
{
    size_t channels = part->channels;
    size_t plane = (size_t)winograd_plane(part->filters * channels);
    size_t filters = part->filters < part->O ? part->filters : part->O;
    for (size_t o = 0; o < filters; o++) {
        for (size_t c = 0; c < channels; c += CHANNELS) {
            const size_t lanes = lanes_at(part->c + c, part->C);
            simd in[POINTS];
            simd out[KERNEL * KERNEL];
            for (size_t p = 0; p < POINTS; p++) {
                in[p] = *(const simd *)(points + p * plane + o * channels + c);
            }
            transform(LINE_WEIGHT_GRADIENT, PATCH, KERNEL, in, out);
            for (size_t position = 0; position < KERNEL * KERNEL; position++) {
                float *target = dweight + (o * KERNEL * KERNEL + position) * part->C + part->c + c;
                store(target, &out[position], lanes, accumulate);
            }
        }
    }
}
