#include "libtrain/ops/depthwise.h"

#include "libtrain/backend/simd.h"

/* Channels are done in blocks that a few vector registers hold; the rest one by one. */
#define BLOCK SIMD_FLOATS

struct depthwise_job {
    const struct conv2d_shape *shape;
    const float *x, *weight, *bias, *dy;
    float *y, *dx;
    bool accumulate;
    size_t slabs;
    double *partial; /* [slabs][KH][KW][C] */
};

/* Kernel positions [low, high) that meet the input, for a window that starts at `start`. */
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

/* ---- forward ---- */

/* One output pixel: x points at the input under kernel position (rows.low, columns.low). */
SIMD_CLONES static void forward_pixel(const struct conv2d_shape *s, struct span rows, struct span columns,
                                      const float *restrict x, const float *restrict weight, const float *restrict bias,
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
                sum += x[((kh - rows.low) * s->W + (kw - columns.low)) * C + c] * weight[(kh * s->KW + kw) * C + c];
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
        for (size_t ow = 0; ow < s->OW; ow++) {
            struct span columns = inside(ow, s->SW, s->PW, s->KW, s->W);
            size_t w = columns.low < columns.high ? ow * s->SW + columns.low - s->PW : 0;
            forward_pixel(s, rows, columns, x + w * s->C, job->weight, job->bias, job->y + (line * s->OW + ow) * s->C);
        }
    }
}

void depthwise_forward(const struct compute *compute, const struct conv2d_shape *shape, const float *x,
                       const float *weight, const float *bias, float *y)
{
    const struct depthwise_job job = {.shape = shape,
                                      .x = x,
                                      .weight = weight,
                                      .bias = bias,
                                      .y = y,
                                      .slabs = slab_count(shape->N * shape->OH, shape->OW * shape->C, SLABS_MAX)};
    pool_run(compute->pool, job.slabs, forward_slab, &job);
}

/* ---- backward to the input ---- */

/* The kernel positions through which an input row or column h was read: kh = h + P - oh S for outputs oh in
 * [first, end), in order of falling kh. */
struct readers {
    size_t first, end;
};

static inline struct readers readers_of(size_t h, size_t S, size_t P, size_t K, size_t outputs)
{
    size_t top = h + P; /* oh S <= top and oh S + K > top */
    size_t first = top >= K ? (top - K) / S + 1 : 0;
    size_t end = top / S + 1;
    end = end > outputs ? outputs : end;
    return first < end ? (struct readers){first, end} : (struct readers){0, 0};
}

SIMD_CLONES static void backward_pixel(const struct conv2d_shape *s, struct readers rows, struct readers columns,
                                       size_t top, size_t left, const float *restrict dy, const float *restrict weight,
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
                sum += *(const simd *)(from + ow * C) * *(const simd *)(factor + (left - ow * s->SW) * C);
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
                sum +=
                    dy[(oh * s->OW + ow) * C + c] * weight[((top - oh * s->SH) * s->KW + (left - ow * s->SW)) * C + c];
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
        struct readers rows = readers_of(h, s->SH, s->PH, s->KH, s->OH);
        for (size_t w = 0; w < s->W; w++) {
            struct readers columns = readers_of(w, s->SW, s->PW, s->KW, s->OW);
            backward_pixel(s, rows, columns, h + s->PH, w + s->PW, job->dy + n * s->OH * s->OW * s->C, job->weight,
                           job->dx + (line * s->W + w) * s->C, job->accumulate);
        }
    }
}

void depthwise_backward_data(const struct compute *compute, const struct conv2d_shape *shape, const float *dy,
                             const float *weight, float *dx, bool accumulate)
{
    const struct depthwise_job job = {.shape = shape,
                                      .dy = dy,
                                      .weight = weight,
                                      .dx = dx,
                                      .accumulate = accumulate,
                                      .slabs = slab_count(shape->N * shape->H, shape->W * shape->C, SLABS_MAX)};
    pool_run(compute->pool, job.slabs, backward_slab, &job);
}

/* ---- backward to the weights ---- */

/* Output columns [first, end) whose window's column kw lies inside the input. */
static inline struct readers outputs_inside(size_t kw, size_t S, size_t P, size_t size, size_t outputs)
{
    size_t first = kw >= P ? 0 : (P - kw + S - 1) / S;
    size_t last = size + P - kw; /* ow S < last */
    size_t end = size + P > kw ? (last + S - 1) / S : 0;
    end = end > outputs ? outputs : end;
    return first < end ? (struct readers){first, end} : (struct readers){0, 0};
}

/* partial[C] += sum over `count` output pixels of one line, in float; x moves by x_step from pixel to pixel. */
SIMD_CLONES static void weight_line(const float *restrict x, size_t x_step, const float *restrict dy, size_t C,
                                    size_t count, double *restrict partial)
{
    size_t c = 0;
    for (; c + BLOCK <= C; c += BLOCK) {
        simd sum = {0};
        for (size_t i = 0; i < count; i++) {
            sum += *(const simd *)(x + i * x_step + c) * *(const simd *)(dy + i * C + c);
        }
        for (size_t i = 0; i < BLOCK; i++) {
            partial[c + i] += (double)sum[i];
        }
    }
    for (; c < C; c++) {
        float sum = 0.0f;
        for (size_t i = 0; i < count; i++) {
            sum += x[i * x_step + c] * dy[i * C + c];
        }
        partial[c] += (double)sum;
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
            for (size_t kw = 0; kw < s->KW; kw++) {
                struct readers out = outputs_inside(kw, s->SW, s->PW, s->W, s->OW);
                if (out.first < out.end) {
                    weight_line(x + (out.first * s->SW + kw - s->PW) * s->C, s->SW * s->C,
                                job->dy + (line * s->OW + out.first) * s->C, s->C, out.end - out.first,
                                partial + (kh * s->KW + kw) * s->C);
                }
            }
        }
    }
}

void depthwise_backward_weights(const struct compute *compute, const struct conv2d_shape *shape, const float *x,
                                const float *dy, float *dweight)
{
    const struct depthwise_job job = {.shape = shape,
                                      .x = x,
                                      .dy = dy,
                                      .partial = compute->shared,
                                      .slabs =
                                          slab_count(shape->N * shape->OH, shape->OW * shape->C, SLAB_PARTIALS_MAX)};
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
