#include "libtrain/ops/columns.h"

#include <string.h>

#include "libtrain/backend/simd.h"

/* An output pixel and the start of its window, which is negative in the padding. */
struct window {
    const struct conv2d_shape *shape;
    size_t n, oh, ow;
    ptrdiff_t top, left;
};

static struct window window_of(const struct conv2d_shape *shape, size_t m)
{
    size_t ow = m % shape->OW;
    size_t oh = m / shape->OW % shape->OH;
    return (struct window){.shape = shape,
                           .n = m / shape->OW / shape->OH,
                           .oh = oh,
                           .ow = ow,
                           .top = (ptrdiff_t)(oh * shape->SH) - (ptrdiff_t)shape->PH,
                           .left = (ptrdiff_t)(ow * shape->SW) - (ptrdiff_t)shape->PW};
}

/* Move to the next pixel, without a division. */
static inline void window_move(struct window *window)
{
    const struct conv2d_shape *shape = window->shape;
    window->left += (ptrdiff_t)shape->SW;
    if (++window->ow < shape->OW) {
        return;
    }
    window->ow = 0;
    window->left = -(ptrdiff_t)shape->PW;
    window->top += (ptrdiff_t)shape->SH;
    if (++window->oh == shape->OH) {
        window->oh = 0;
        window->top = -(ptrdiff_t)shape->PH;
        window->n++;
    }
}

/* The part [low, high) of kernel columns [first, end) that lies inside the input. */
struct span {
    size_t low, high;
};

static struct span inside(const struct window *window, size_t first, size_t end)
{
    ptrdiff_t low = window->left < 0 ? -window->left : 0;
    ptrdiff_t high = (ptrdiff_t)window->shape->W - window->left;
    low = low < (ptrdiff_t)first ? (ptrdiff_t)first : low;
    high = high > (ptrdiff_t)end ? (ptrdiff_t)end : high;
    return low < high ? (struct span){(size_t)low, (size_t)high} : (struct span){first, first};
}

/* Copy short runs by moves of a fixed size, which overlap at the end. Few channels mean many short
 * copies, and these moves are faster than a call. */
static inline void copy_floats(float *restrict to, const float *restrict from, size_t count)
{
    enum { QUAD = 4 };
    if (count >= 4 * QUAD) {
        memcpy(to, from, count * sizeof(float));
    } else if (count >= QUAD) {
        memcpy(to, from, QUAD * sizeof(float));
        if (count >= 2 * QUAD) {
            memcpy(to + QUAD, from + QUAD, QUAD * sizeof(float));
        }
        if (count >= 3 * QUAD) {
            memcpy(to + 2 * QUAD, from + 2 * QUAD, QUAD * sizeof(float));
        }
        memcpy(to + count - QUAD, from + count - QUAD, QUAD * sizeof(float));
    } else if (count > 0) {
        to[0] = from[0];
        to[count / 2] = from[count / 2];
        to[count - 1] = from[count - 1];
    }
}

/* Kernel columns [first, end) of kernel row kh. */
static void gather_row(const struct window *window, const struct columns_block *block, size_t kh,
                       size_t first, size_t end, const float *x, float *to)
{
    const struct conv2d_shape *s = window->shape;
    size_t channels = block->channels;
    ptrdiff_t h = window->top + (ptrdiff_t)kh;
    struct span span = {first, first};
    if (h >= 0 && h < (ptrdiff_t)s->H) {
        span = inside(window, first, end);
    }
    if (span.low > first) {
        memset(to, 0, (span.low - first) * channels * sizeof(float));
    }
    if (span.high < end) {
        memset(to + (span.high - first) * channels, 0,
               (end - span.high) * channels * sizeof(float));
    }
    if (span.low == span.high) {
        return;
    }
    size_t w = (size_t)(window->left + (ptrdiff_t)span.low);
    const float *from = x + ((window->n * s->H + (size_t)h) * s->W + w) * s->C + block->channel;
    to += (span.low - first) * channels;
    if (channels == s->C) {
        copy_floats(to, from, (span.high - span.low) * channels);
        return;
    }
    for (size_t kw = span.low; kw < span.high; kw++, from += s->C, to += channels) {
        copy_floats(to, from, channels);
    }
}

void columns_gather(const struct conv2d_shape *shape, const struct columns_block *block, size_t m,
                    size_t pixels, const float *x, float *columns)
{
    size_t KW = shape->KW;
    struct window window = window_of(shape, m);
    for (size_t pixel = 0; pixel < pixels; pixel++, window_move(&window)) {
        for (size_t position = block->position_first; position < block->position_end;) {
            size_t kh = position / KW;
            size_t end = (kh + 1) * KW < block->position_end ? (kh + 1) * KW : block->position_end;
            gather_row(&window, block, kh, position - kh * KW, end - kh * KW, x, columns);
            columns += (end - position) * block->channels;
            position = end;
        }
    }
}

SIMD_CLONES static void add_floats(float *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] += from[i];
    }
}

void columns_scatter(const struct conv2d_shape *shape, const struct columns_block *block, size_t m,
                     size_t pixels, const float *columns, float *dx)
{
    size_t KW = shape->KW;
    size_t channels = block->channels;
    struct window window = window_of(shape, m);
    for (size_t pixel = 0; pixel < pixels; pixel++, window_move(&window)) {
        struct span span = inside(&window, 0, KW);
        for (size_t kh = 0; kh < shape->KH; kh++, columns += KW * channels) {
            ptrdiff_t h = window.top + (ptrdiff_t)kh;
            if (h < 0 || h >= (ptrdiff_t)shape->H || span.low == span.high) {
                continue;
            }
            size_t w = (size_t)(window.left + (ptrdiff_t)span.low);
            float *to =
                dx + ((window.n * shape->H + (size_t)h) * shape->W + w) * shape->C + block->channel;
            const float *from = columns + span.low * channels;
            if (channels == shape->C) {
                add_floats(to, from, (span.high - span.low) * channels);
                continue;
            }
            for (size_t kw = span.low; kw < span.high; kw++, to += shape->C, from += channels) {
                add_floats(to, from, channels);
            }
        }
    }
}
