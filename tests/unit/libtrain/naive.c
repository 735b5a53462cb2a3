#include "tests/unit/libtrain/naive.h"

#include <math.h>
#include <stdbool.h>

/* ---- conv2d ---- */

/* Run through every product of the convolution. */
struct conv2d_term {
    size_t x, weight, y, o;
};

typedef void (*conv2d_term_fn)(void *arg, const struct conv2d_term *term);

static void conv2d_each(const struct conv2d_shape *s, conv2d_term_fn term_fn, void *arg)
{
    size_t inputs = s->C / s->G;
    size_t outputs = s->O / s->G;
    for (size_t i = 0; i < s->N * s->OH * s->OW * s->O * inputs * s->K * s->K; i++) {
        size_t rest = i;
        size_t kw = rest % s->K;
        size_t kh = (rest /= s->K) % s->K;
        size_t c = (rest /= s->K) % inputs;
        size_t o = (rest /= inputs) % s->O;
        size_t ow = (rest /= s->O) % s->OW;
        size_t oh = (rest /= s->OW) % s->OH;
        size_t n = rest / s->OH;
        size_t h = oh * s->S + kh;
        size_t w = ow * s->S + kw;
        if (h < s->P || h >= s->H + s->P || w < s->P || w >= s->W + s->P) {
            continue;
        }
        size_t channel = o / outputs * inputs + c;
        term_fn(arg, &(struct conv2d_term){.x = ((n * s->H + h - s->P) * s->W + w - s->P) * s->C + channel,
                                           .weight = ((o * inputs + c) * s->K + kh) * s->K + kw,
                                           .y = ((n * s->OH + oh) * s->OW + ow) * s->O + o,
                                           .o = o});
    }
}

struct conv2d_tensors {
    const double *x, *weight, *dy;
    double *y, *dx, *dweight;
};

static void conv2d_forward_term(void *arg, const struct conv2d_term *term)
{
    struct conv2d_tensors *t = arg;
    t->y[term->y] += t->x[term->x] * t->weight[term->weight];
}

static void conv2d_backward_term(void *arg, const struct conv2d_term *term)
{
    struct conv2d_tensors *t = arg;
    if (t->dx) {
        t->dx[term->x] += t->dy[term->y] * t->weight[term->weight];
    }
    if (t->dweight) {
        t->dweight[term->weight] += t->dy[term->y] * t->x[term->x];
    }
}

void naive_conv2d_forward(const struct conv2d_shape *s, const double *x, const double *weight, const double *bias,
                          double *y)
{
    for (size_t i = 0; i < s->N * s->OH * s->OW * s->O; i++) {
        y[i] = bias ? bias[i % s->O] : 0.0;
    }
    struct conv2d_tensors tensors = {.x = x, .weight = weight, .y = y};
    conv2d_each(s, conv2d_forward_term, &tensors);
}

void naive_conv2d_backward(const struct conv2d_shape *s, const double *x, const double *weight, const double *dy,
                           double *dx, double *dweight, double *dbias)
{
    struct conv2d_tensors tensors = {.x = x, .weight = weight, .dy = dy, .dx = dx, .dweight = dweight};
    conv2d_each(s, conv2d_backward_term, &tensors);
    for (size_t i = 0; dbias && i < s->N * s->OH * s->OW * s->O; i++) {
        dbias[i % s->O] += dy[i];
    }
}

/* ---- linear ---- */

/* PyTorch's index of our feature f. */
static size_t feature(struct shape flat, size_t f)
{
    size_t pixels = (size_t)flat.h * flat.w;
    return f % flat.c * pixels + f / flat.c;
}

void naive_linear_forward(const struct linear_shape *s, struct shape flat, const double *x, const double *weight,
                          const double *bias, double *y)
{
    for (size_t n = 0; n < s->N; n++) {
        for (size_t o = 0; o < s->O; o++) {
            double sum = bias ? bias[o] : 0.0;
            for (size_t f = 0; f < s->F; f++) {
                sum += x[n * s->F + f] * weight[o * s->F + feature(flat, f)];
            }
            y[n * s->O + o] = sum;
        }
    }
}

void naive_linear_backward(const struct linear_shape *s, struct shape flat, const double *x, const double *weight,
                           const double *dy, double *dx, double *dweight, double *dbias)
{
    for (size_t n = 0; n < s->N; n++) {
        for (size_t o = 0; o < s->O; o++) {
            double gradient = dy[n * s->O + o];
            for (size_t f = 0; f < s->F; f++) {
                dx[n * s->F + f] += gradient * weight[o * s->F + feature(flat, f)];
                dweight[o * s->F + feature(flat, f)] += gradient * x[n * s->F + f];
            }
            dbias[o] += gradient;
        }
    }
}

/* ---- batch_norm ---- */

static void statistics(const struct batch_norm_shape *s, const double *x, size_t c, double *mean, double *variance)
{
    double count = (double)s->M;
    *mean = 0.0;
    *variance = 0.0;
    for (size_t m = 0; m < s->M; m++) {
        *mean += x[m * s->C + c] / count;
    }
    for (size_t m = 0; m < s->M; m++) {
        *variance += (x[m * s->C + c] - *mean) * (x[m * s->C + c] - *mean) / count;
    }
}

void naive_batch_norm_forward(const struct batch_norm_shape *s, const double *x, const double *weight,
                              const double *bias, double *mean, double *variance, double *y)
{
    for (size_t c = 0; c < s->C; c++) {
        statistics(s, x, c, &mean[c], &variance[c]);
        for (size_t m = 0; m < s->M; m++) {
            size_t i = m * s->C + c;
            y[i] = (x[i] - mean[c]) / sqrt(variance[c] + s->epsilon) * weight[c] + bias[c];
        }
    }
}

void naive_batch_norm_backward(const struct batch_norm_shape *s, const double *x, const double *weight,
                               const double *dy, double *dx, double *dweight, double *dbias)
{
    for (size_t c = 0; c < s->C; c++) {
        double mean;
        double variance;
        statistics(s, x, c, &mean, &variance);
        double inverse = 1.0 / sqrt(variance + s->epsilon);
        double sum = 0.0;
        double product = 0.0;
        for (size_t m = 0; m < s->M; m++) {
            sum += dy[m * s->C + c];
            product += dy[m * s->C + c] * (x[m * s->C + c] - mean) * inverse;
        }
        dweight[c] += product;
        dbias[c] += sum;
        for (size_t m = 0; m < s->M; m++) {
            size_t i = m * s->C + c;
            double normalised = (x[i] - mean) * inverse;
            dx[i] += weight[c] * inverse * (dy[i] - sum / (double)s->M - normalised * product / (double)s->M);
        }
    }
}

/* ---- pools ---- */

/* Index of the input under position (kh, kw) of the window of output i, or false in the padding. */
static bool under_window(const struct pool2d_shape *s, size_t i, size_t kh, size_t kw, size_t *out)
{
    size_t c = i % s->C;
    size_t ow = i / s->C % s->OW;
    size_t oh = i / s->C / s->OW % s->OH;
    size_t n = i / s->C / s->OW / s->OH;
    size_t h = oh * s->S + kh;
    size_t w = ow * s->S + kw;
    if (h < s->P || h >= s->H + s->P || w < s->P || w >= s->W + s->P) {
        return false;
    }
    *out = ((n * s->H + h - s->P) * s->W + w - s->P) * s->C + c;
    return true;
}

static size_t winner(const struct pool2d_shape *s, const double *x, size_t i)
{
    size_t best = SIZE_MAX;
    for (size_t k = 0; k < s->K * s->K; k++) {
        size_t at;
        if (under_window(s, i, k / s->K, k % s->K, &at) && (best == SIZE_MAX || x[at] > x[best])) {
            best = at;
        }
    }
    return best;
}

void naive_max_pool_forward(const struct pool2d_shape *s, const double *x, double *y)
{
    for (size_t i = 0; i < s->N * s->OH * s->OW * s->C; i++) {
        y[i] = x[winner(s, x, i)];
    }
}

void naive_max_pool_backward(const struct pool2d_shape *s, const double *x, const double *dy, double *dx)
{
    for (size_t i = 0; i < s->N * s->OH * s->OW * s->C; i++) {
        dx[winner(s, x, i)] += dy[i];
    }
}

void naive_avg_pool_forward(const struct pool2d_shape *s, const double *x, double *y)
{
    for (size_t i = 0; i < s->N * s->OH * s->OW * s->C; i++) {
        y[i] = 0.0;
        for (size_t k = 0; k < s->K * s->K; k++) {
            size_t at;
            if (under_window(s, i, k / s->K, k % s->K, &at)) {
                y[i] += x[at] / (double)(s->K * s->K);
            }
        }
    }
}

void naive_avg_pool_backward(const struct pool2d_shape *s, const double *dy, double *dx)
{
    for (size_t i = 0; i < s->N * s->OH * s->OW * s->C; i++) {
        for (size_t k = 0; k < s->K * s->K; k++) {
            size_t at;
            if (under_window(s, i, k / s->K, k % s->K, &at)) {
                dx[at] += dy[i] / (double)(s->K * s->K);
            }
        }
    }
}

/* ---- loss ---- */

double naive_softmax_cross_entropy(size_t N, size_t C, const double *x, const int32_t *label, double scale, double *dx)
{
    double total = 0.0;
    for (size_t n = 0; n < N; n++) {
        const double *score = x + n * C;
        double largest = score[0];
        double sum = 0.0;
        for (size_t c = 1; c < C; c++) {
            largest = fmax(largest, score[c]);
        }
        for (size_t c = 0; c < C; c++) {
            sum += exp(score[c] - largest);
        }
        total += log(sum) + largest - score[label[n]];
        for (size_t c = 0; dx && c < C; c++) {
            dx[n * C + c] += (exp(score[c] - largest) / sum - (c == (size_t)label[n] ? 1.0 : 0.0)) * scale;
        }
    }
    return total;
}
