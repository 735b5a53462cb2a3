#include "libtrain/ops/depthwise.h"

#include <string.h>

#include "libtrain/backend/simd.h"
#include "libtrain/model/model.h"

/* Channels are processed in blocks that fit a few vector registers; the rest one by one. */
#define BLOCK SIMD_FLOATS

struct depthwise_job {
    const struct conv2d_shape *shape;
    const float *x, *weight, *bias, *dy;
    float *y, *dx;
    bool accumulate;
    size_t slabs;
    double *partial; /* [slabs][KH][KW][C] */
};

struct range {
    size_t first, end;
};

/* Kernel positions [low, high) of a window that lie inside the input. */
struct span {
    size_t low, high;
};

static inline struct span inside(size_t output, size_t S, size_t P, size_t K, size_t size)
{
    ptrdiff_t start = (ptrdiff_t)(output * S) - (ptrdiff_t)P;
    ptrdiff_t low = start < 0 ? -start : 0;
    ptrdiff_t high = (ptrdiff_t)size - start;
    high = high > (ptrdiff_t)K ? (ptrdiff_t)K : high;
    return low < high ? (struct span){(size_t)low, (size_t)high} : (struct span){0, 0};
}

/* ---- full windows of 3 x 3 with stride 1, consecutive in a line ---- */

#define WINDOW 3
#define WINDOWS 4 /* outputs at once */
#define INLINE static inline __attribute__((always_inline))

static bool is_window(const struct conv2d_shape *s)
{
    return s->KH == WINDOW && s->KW == WINDOW && s->SH == 1 && s->SW == 1;
}

struct windows {
    const float *from, *weight, *bias;
    float *to;
    size_t line, C; /* floats from line to line, and from pixel to pixel */
    bool turned, accumulate;
};

/* Compute `count` outputs from number i on, channels [c, c + BLOCK). Each input column is read once
 * for all outputs. */
INLINE void windows_block(const struct windows *w, size_t i, size_t c, size_t count)
{
    simd sum[WINDOWS];
    for (size_t k = 0; k < count; k++) {
        sum[k] = (simd){0};
        if (w->bias) {
            sum[k] = *(const simd *)(w->bias + c);
        }
    }
    for (size_t row = 0; row < WINDOW; row++) {
        const float *from = w->from + row * w->line + i * w->C + c;
        simd factor[WINDOW];
        for (size_t k = 0; k < WINDOW; k++) {
            size_t position = row * WINDOW + k;
            factor[k] =
                *(const simd *)(w->weight +
                                (w->turned ? WINDOW * WINDOW - 1 - position : position) * w->C + c);
        }
        for (size_t column = 0; column < count + WINDOW - 1; column++) {
            simd x = *(const simd *)(from + column * w->C);
            for (size_t k = 0; k < WINDOW; k++) {
                if (column >= k && column - k < count) {
                    sum[column - k] += x * factor[k];
                }
            }
        }
    }
    for (size_t k = 0; k < count; k++) {
        simd *target = (simd *)(w->to + (i + k) * w->C + c);
        if (w->accumulate) {
            sum[k] = *target + sum[k];
        }
        *target = sum[k];
    }
}

static void windows_channel(const struct windows *w, size_t i, size_t c)
{
    float sum = w->bias ? w->bias[c] : 0.0f;
    for (size_t k = 0; k < WINDOW * WINDOW; k++) {
        sum += w->from[k / WINDOW * w->line + (i + k % WINDOW) * w->C + c] *
               w->weight[(w->turned ? WINDOW * WINDOW - 1 - k : k) * w->C + c];
    }
    float *target = w->to + i * w->C + c;
    *target = w->accumulate ? *target + sum : sum;
}

/* to[i] = bias + the sum over from[0..2][i + 0..2] weight[0..2][0..2], column by column in each
 * row; += if `accumulate`. `turned`: weights rotated by 180 degrees, for the input gradient. */
SIMD_CLONES static void run_windows(const struct windows *w, size_t count)
{
    size_t i = 0;
    for (; i + WINDOWS <= count; i += WINDOWS) {
        for (size_t c = 0; c + BLOCK <= w->C; c += BLOCK) {
            windows_block(w, i, c, WINDOWS);
        }
    }
    for (; i < count; i++) {
        for (size_t c = 0; c + BLOCK <= w->C; c += BLOCK) {
            windows_block(w, i, c, 1);
        }
    }
    for (size_t c = w->C - w->C % BLOCK; c < w->C; c++) {
        for (i = 0; i < count; i++) {
            windows_channel(w, i, c);
        }
    }
}

/* ---- forward ---- */

/* One output pixel: x points at the input under kernel position (rows.low, columns.low). */
SIMD_CLONES static void forward_pixel(const struct conv2d_shape *s, struct span rows,
                                      struct span columns, const float *restrict x,
                                      const float *restrict weight, const float *restrict bias,
                                      float *restrict y)
{
    size_t C = s->C;
    size_t c = 0;
    for (; c + BLOCK <= C; c += BLOCK) {
        simd sum = {0};
        if (bias) {
            sum = *(const simd *)(bias + c);
        }
        for (size_t kh = rows.low; kh < rows.high; kh++) {
            const float *restrict from = x + (kh - rows.low) * s->W * C + c;
            const float *restrict factor = weight + (kh * s->KW + columns.low) * C + c;
            for (size_t kw = columns.low; kw < columns.high; kw++, from += C, factor += C) {
                sum += *(const simd *)from * *(const simd *)factor;
            }
        }
        *(simd *)(y + c) = sum;
    }
    for (; c < C; c++) {
        float sum = bias ? bias[c] : 0.0f;
        for (size_t kh = rows.low; kh < rows.high; kh++) {
            for (size_t kw = columns.low; kw < columns.high; kw++) {
                sum += x[((kh - rows.low) * s->W + (kw - columns.low)) * C + c] *
                       weight[(kh * s->KW + kw) * C + c];
            }
        }
        y[c] = sum;
    }
}

static void forward_slab(const void *arg, size_t task, size_t worker)
{
    const struct depthwise_job *job = arg;
    const struct conv2d_shape *s = job->shape;
    (void)worker;
    size_t end = slab_begin(s->N * s->OH, job->slabs, task + 1);
    for (size_t line = slab_begin(s->N * s->OH, job->slabs, task); line < end; line++) {
        size_t n = line / s->OH;
        size_t oh = line % s->OH;
        struct span rows = inside(oh, s->SH, s->PH, s->KH, s->H);
        size_t h = rows.low < rows.high ? oh * s->SH + rows.low - s->PH : 0;
        const float *x = job->x + (n * s->H + h) * s->W * s->C;
        struct range whole = {0, 0};
        if (is_window(s) && rows.high - rows.low == WINDOW && s->W >= WINDOW) {
            whole = (struct range){s->PW, s->W - WINDOW + s->PW + 1};
        }
        for (size_t ow = 0; ow < s->OW; ow++) {
            if (ow == whole.first && whole.first < whole.end) {
                const struct windows windows = {.from = x,
                                                .weight = job->weight,
                                                .bias = job->bias,
                                                .to = job->y + (line * s->OW + ow) * s->C,
                                                .line = s->W * s->C,
                                                .C = s->C};
                run_windows(&windows, whole.end - whole.first);
                ow = whole.end - 1;
                continue;
            }
            struct span columns = inside(ow, s->SW, s->PW, s->KW, s->W);
            size_t w = columns.low < columns.high ? ow * s->SW + columns.low - s->PW : 0;
            forward_pixel(s, rows, columns, x + w * s->C, job->weight, job->bias,
                          job->y + (line * s->OW + ow) * s->C);
        }
    }
}

void depthwise_forward(const struct compute *compute, const struct conv2d_shape *shape,
                       const float *x, const float *weight, const float *bias, float *y)
{
    const struct depthwise_job job = {
        .shape = shape,
        .x = x,
        .weight = weight,
        .bias = bias,
        .y = y,
        .slabs = slab_count(shape->N * shape->OH, shape->OW * shape->C, SLABS_MAX)};
    pool_run(compute->pool, job.slabs, forward_slab, &job);
}

/* ---- backward to the input ---- */

/* The outputs that read an input row or column h: kh = h + P - oh S for oh in the range, in order
 * of falling kh. */
static inline struct range readers_of(size_t h, size_t S, size_t P, size_t K, size_t outputs)
{
    size_t top = h + P; /* oh S <= top and oh S + K > top */
    size_t first = top >= K ? (top - K) / S + 1 : 0;
    size_t end = top / S + 1;
    end = end > outputs ? outputs : end;
    return first < end ? (struct range){first, end} : (struct range){0, 0};
}

SIMD_CLONES static void backward_pixel(const struct conv2d_shape *s, struct range rows,
                                       struct range columns, size_t top, size_t left,
                                       const float *restrict dy, const float *restrict weight,
                                       float *restrict dx, bool accumulate)
{
    size_t C = s->C;
    size_t c = 0;
    for (; c + BLOCK <= C; c += BLOCK) {
        simd sum = {0};
        for (size_t oh = rows.first; oh < rows.end; oh++) {
            const float *restrict factor = weight + (top - oh * s->SH) * s->KW * C + c;
            const float *restrict from = dy + oh * s->OW * C + c;
            for (size_t ow = columns.first; ow < columns.end; ow++) {
                sum += *(const simd *)(from + ow * C) *
                       *(const simd *)(factor + (left - ow * s->SW) * C);
            }
        }
        if (accumulate) {
            sum = *(simd *)(dx + c) + sum;
        }
        *(simd *)(dx + c) = sum;
    }
    for (; c < C; c++) {
        float sum = 0.0f;
        for (size_t oh = rows.first; oh < rows.end; oh++) {
            for (size_t ow = columns.first; ow < columns.end; ow++) {
                sum += dy[(oh * s->OW + ow) * C + c] *
                       weight[((top - oh * s->SH) * s->KW + (left - ow * s->SW)) * C + c];
            }
        }
        dx[c] = accumulate ? dx[c] + sum : sum;
    }
}

static void backward_slab(const void *arg, size_t task, size_t worker)
{
    const struct depthwise_job *job = arg;
    const struct conv2d_shape *s = job->shape;
    (void)worker;
    size_t end = slab_begin(s->N * s->H, job->slabs, task + 1);
    for (size_t line = slab_begin(s->N * s->H, job->slabs, task); line < end; line++) {
        size_t n = line / s->H;
        size_t h = line % s->H;
        struct range rows = readers_of(h, s->SH, s->PH, s->KH, s->OH);
        const float *dy = job->dy + n * s->OH * s->OW * s->C;
        struct range whole = {0, 0};
        if (is_window(s) && rows.end - rows.first == WINDOW && s->OW >= WINDOW) {
            whole = (struct range){WINDOW - 1 - s->PW, s->OW - s->PW};
        }
        for (size_t w = 0; w < s->W; w++) {
            if (w == whole.first && whole.first < whole.end) {
                const struct windows windows = {
                    .from = dy + (rows.first * s->OW + w + s->PW + 1 - WINDOW) * s->C,
                    .weight = job->weight,
                    .to = job->dx + (line * s->W + w) * s->C,
                    .line = s->OW * s->C,
                    .C = s->C,
                    .turned = true,
                    .accumulate = job->accumulate,
                };
                run_windows(&windows, whole.end - whole.first);
                w = whole.end - 1;
                continue;
            }
            struct range columns = readers_of(w, s->SW, s->PW, s->KW, s->OW);
            backward_pixel(s, rows, columns, h + s->PH, w + s->PW, dy, job->weight,
                           job->dx + (line * s->W + w) * s->C, job->accumulate);
        }
    }
}

void depthwise_backward_data(const struct compute *compute, const struct conv2d_shape *shape,
                             const float *dy, const float *weight, float *dx, bool accumulate)
{
    const struct depthwise_job job = {
        .shape = shape,
        .dy = dy,
        .weight = weight,
        .dx = dx,
        .accumulate = accumulate,
        .slabs = slab_count(shape->N * shape->H, shape->W * shape->C, SLABS_MAX)};
    pool_run(compute->pool, job.slabs, backward_slab, &job);
}

/* ---- backward to the weights ---- */

#define SUM_CHANNELS 256u /* channels summed at once */

/* Output columns [first, end) whose window's column kw lies inside the input. */
static inline struct range outputs_inside(size_t kw, size_t S, size_t P, size_t size,
                                          size_t outputs)
{
    size_t first = kw >= P ? 0 : (P - kw + S - 1) / S;
    size_t last = size + P - kw; /* ow S < last */
    size_t end = size + P > kw ? (last + S - 1) / S : 0;
    end = end > outputs ? outputs : end;
    return first < end ? (struct range){first, end} : (struct range){0, 0};
}

/* sums[WINDOW][SUM_CHANNELS] += x dy over `count` outputs, for `channels` channels. */
INLINE void sum_block(const float *x, const float *dy, size_t step, size_t C, size_t count,
                      size_t channels, float (*sums)[SUM_CHANNELS])
{
    for (size_t c = 0; c < channels; c += BLOCK) {
        simd sum[WINDOW];
        for (size_t kw = 0; kw < WINDOW; kw++) {
            sum[kw] = *(const simd *)(sums[kw] + c);
        }
        for (size_t i = 0; i < count; i++) {
            simd gradient = *(const simd *)(dy + i * C + c);
            for (size_t kw = 0; kw < WINDOW; kw++) {
                sum[kw] += *(const simd *)(x + i * step + kw * C + c) * gradient;
            }
        }
        for (size_t kw = 0; kw < WINDOW; kw++) {
            *(simd *)(sums[kw] + c) = sum[kw];
        }
    }
}

/* partial[kw][C] += sum over `count` outputs whose WINDOW-wide windows begin at x, in float. */
SIMD_CLONES static void weight_windows(const float *x, const float *dy, size_t step, size_t C,
                                       size_t count, double *partial)
{
    float sums[WINDOW][SUM_CHANNELS];
    for (size_t c = 0; c < C; c += SUM_CHANNELS) {
        size_t channels = C - c < SUM_CHANNELS ? C - c : SUM_CHANNELS;
        size_t whole = channels - channels % BLOCK;
        size_t i = 0;
        memset(sums, 0, sizeof(sums));
        for (; i + WINDOWS <= count; i += WINDOWS) {
            sum_block(x + i * step + c, dy + i * C + c, step, C, WINDOWS, whole, sums);
        }
        sum_block(x + i * step + c, dy + i * C + c, step, C, count - i, whole, sums);
        for (size_t kw = 0; kw < WINDOW; kw++) {
            for (size_t k = whole; k < channels; k++) {
                for (i = 0; i < count; i++) {
                    sums[kw][k] += x[i * step + kw * C + c + k] * dy[i * C + c + k];
                }
            }
            for (size_t k = 0; k < channels; k++) {
                partial[kw * C + c + k] += (double)sums[kw][k];
            }
        }
    }
}

/* partial[C] += sum over `count` outputs for one kernel column; x moves by `step` from output to
 * output. */
SIMD_CLONES static void weight_column(const float *restrict x, size_t step,
                                      const float *restrict dy, size_t C, size_t count,
                                      double *restrict partial)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; c < C; c++) {
            partial[c] += (double)(x[i * step + c] * dy[i * C + c]);
        }
    }
}

/* partial[kw][C] += sum over one line of outputs; x is the line of the input that the kernel row
 * reads. */
static void weight_line(const struct conv2d_shape *s, const float *x, const float *dy,
                        double *partial)
{
    size_t C = s->C;
    struct range out[MODEL_WINDOW_MAX];
    struct range whole = {0, s->OW};
    for (size_t kw = 0; kw < s->KW; kw++) {
        out[kw] = outputs_inside(kw, s->SW, s->PW, s->W, s->OW);
        whole.first = out[kw].first > whole.first ? out[kw].first : whole.first;
        whole.end = out[kw].end < whole.end ? out[kw].end : whole.end;
    }
    bool together = s->KW == WINDOW && whole.first < whole.end;
    if (together) {
        weight_windows(x + (whole.first * s->SW - s->PW) * C, dy + whole.first * C, s->SW * C, C,
                       whole.end - whole.first, partial);
    }
    for (size_t kw = 0; kw < s->KW; kw++) {
        /* The outputs before and after the full windows. */
        const struct range rest[] = {{out[kw].first, together ? whole.first : out[kw].end},
                                     {together ? whole.end : out[kw].end, out[kw].end}};
        for (size_t r = 0; r < 2; r++) {
            if (rest[r].first < rest[r].end) {
                weight_column(x + (rest[r].first * s->SW + kw - s->PW) * C, s->SW * C,
                              dy + rest[r].first * C, C, rest[r].end - rest[r].first,
                              partial + kw * C);
            }
        }
    }
}

static void weights_slab(const void *arg, size_t task, size_t worker)
{
    const struct depthwise_job *job = arg;
    const struct conv2d_shape *s = job->shape;
    (void)worker;
    double *partial = job->partial + task * s->KH * s->KW * s->C;
    for (size_t i = 0; i < s->KH * s->KW * s->C; i++) {
        partial[i] = 0.0;
    }
    size_t end = slab_begin(s->N * s->OH, job->slabs, task + 1);
    for (size_t line = slab_begin(s->N * s->OH, job->slabs, task); line < end; line++) {
        size_t n = line / s->OH;
        size_t oh = line % s->OH;
        struct span rows = inside(oh, s->SH, s->PH, s->KH, s->H);
        for (size_t kh = rows.low; kh < rows.high; kh++) {
            const float *x = job->x + (n * s->H + oh * s->SH + kh - s->PH) * s->W * s->C;
            weight_line(s, x, job->dy + line * s->OW * s->C, partial + kh * s->KW * s->C);
        }
    }
}

void depthwise_backward_weights(const struct compute *compute, const struct conv2d_shape *shape,
                                const float *x, const float *dy, float *dweight)
{
    const struct depthwise_job job = {
        .shape = shape,
        .x = x,
        .dy = dy,
        .partial = compute->shared,
        .slabs = slab_count(shape->N * shape->OH, shape->OW * shape->C, SLAB_PARTIALS_MAX)};
    pool_run(compute->pool, job.slabs, weights_slab, &job);
    size_t count = shape->KH * shape->KW * shape->C;
    for (size_t i = 0; i < count; i++) {
        double sum = 0.0;
        for (size_t slab = 0; slab < job.slabs; slab++) {
            sum += job.partial[slab * count + i];
        }
        dweight[i] = (float)((double)dweight[i] + sum);
    }
}
