#include "tests/unit/libtrain_ops/naive.h"

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
    for (size_t i = 0; i < s->N * s->OH * s->OW * s->O * inputs * s->KH * s->KW; i++) {
        size_t rest = i;
        size_t kw = rest % s->KW;
        size_t kh = (rest /= s->KW) % s->KH;
        size_t c = (rest /= s->KH) % inputs;
        size_t o = (rest /= inputs) % s->O;
        size_t ow = (rest /= s->O) % s->OW;
        size_t oh = (rest /= s->OW) % s->OH;
        size_t n = rest / s->OH;
        size_t h = oh * s->SH + kh;
        size_t w = ow * s->SW + kw;
        if (h < s->PH || h >= s->H + s->PH || w < s->PW || w >= s->W + s->PW) {
            continue;
        }
        size_t channel = o / outputs * inputs + c;
        term_fn(arg, &(struct conv2d_term){.x = ((n * s->H + h - s->PH) * s->W + w - s->PW) * s->C +
                                                channel,
                                           .weight = ((o * inputs + c) * s->KH + kh) * s->KW + kw,
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

void naive_conv2d_forward(const struct conv2d_shape *s, const double *x, const double *weight,
                          const double *bias, double *y)
{
    for (size_t i = 0; i < s->N * s->OH * s->OW * s->O; i++) {
        y[i] = bias ? bias[i % s->O] : 0.0;
    }
    struct conv2d_tensors tensors = {.x = x, .weight = weight, .y = y};
    conv2d_each(s, conv2d_forward_term, &tensors);
}

void naive_conv2d_backward(const struct conv2d_shape *s, const double *x, const double *weight,
                           const double *dy, double *dx, double *dweight, double *dbias)
{
    struct conv2d_tensors tensors = {
        .x = x, .weight = weight, .dy = dy, .dx = dx, .dweight = dweight};
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

void naive_linear_forward(const struct linear_shape *s, struct shape flat, const double *x,
                          const double *weight, const double *bias, double *y)
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

void naive_linear_backward(const struct linear_shape *s, struct shape flat, const double *x,
                           const double *weight, const double *dy, double *dx, double *dweight,
                           double *dbias)
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

static void statistics(const struct batch_norm_shape *s, const double *x, size_t c, double *mean,
                       double *variance)
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

void naive_batch_norm_forward(const struct batch_norm_shape *s, const double *x,
                              const double *weight, const double *bias, double *mean,
                              double *variance, double *y)
{
    for (size_t c = 0; c < s->C; c++) {
        statistics(s, x, c, &mean[c], &variance[c]);
        for (size_t m = 0; m < s->M; m++) {
            size_t i = m * s->C + c;
            y[i] = (x[i] - mean[c]) / sqrt(variance[c] + s->epsilon) * weight[c] + bias[c];
        }
    }
}

void naive_batch_norm_backward(const struct batch_norm_shape *s, const double *x,
                               const double *weight, const double *dy, double *dx, double *dweight,
                               double *dbias)
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
            dx[i] += weight[c] * inverse *
                     (dy[i] - sum / (double)s->M - normalised * product / (double)s->M);
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
    size_t h = oh * s->SH + kh;
    size_t w = ow * s->SW + kw;
    if (h < s->PH || h >= s->H + s->PH || w < s->PW || w >= s->W + s->PW) {
        return false;
    }
    *out = ((n * s->H + h - s->PH) * s->W + w - s->PW) * s->C + c;
    return true;
}

static size_t winner(const struct pool2d_shape *s, const double *x, size_t i)
{
    size_t best = SIZE_MAX;
    for (size_t k = 0; k < s->KH * s->KW; k++) {
        size_t at;
        if (under_window(s, i, k / s->KW, k % s->KW, &at) &&
            (best == SIZE_MAX || x[at] > x[best])) {
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

void naive_max_pool_backward(const struct pool2d_shape *s, const double *x, const double *dy,
                             double *dx)
{
    for (size_t i = 0; i < s->N * s->OH * s->OW * s->C; i++) {
        dx[winner(s, x, i)] += dy[i];
    }
}

/* Positions of output i's window within the padded input. */
static double window_elements(const struct pool2d_shape *s, size_t i)
{
    size_t count = 0;
    for (size_t k = 0; k < s->KH * s->KW; k++) {
        size_t h = i / s->C / s->OW % s->OH * s->SH + k / s->KW;
        size_t w = i / s->C % s->OW * s->SW + k % s->KW;
        count += h < s->H + 2 * s->PH && w < s->W + 2 * s->PW;
    }
    return (double)count;
}

void naive_avg_pool_forward(const struct pool2d_shape *s, const double *x, double *y)
{
    for (size_t i = 0; i < s->N * s->OH * s->OW * s->C; i++) {
        y[i] = 0.0;
        for (size_t k = 0; k < s->KH * s->KW; k++) {
            size_t at;
            if (under_window(s, i, k / s->KW, k % s->KW, &at)) {
                y[i] += x[at] / window_elements(s, i);
            }
        }
    }
}

void naive_avg_pool_backward(const struct pool2d_shape *s, const double *dy, double *dx)
{
    for (size_t i = 0; i < s->N * s->OH * s->OW * s->C; i++) {
        for (size_t k = 0; k < s->KH * s->KW; k++) {
            size_t at;
            if (under_window(s, i, k / s->KW, k % s->KW, &at)) {
                dx[at] += dy[i] / window_elements(s, i);
            }
        }
    }
}

/* ---- gelu, silu ---- */

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

void naive_activation_forward(enum activation kind, size_t count, const double *x, double *y)
{
    for (size_t i = 0; i < count; i++) {
        y[i] =
            kind == ACTIVATION_GELU ? x[i] * 0.5 * erfc(-x[i] / sqrt(2.0)) : x[i] * sigmoid(x[i]);
    }
}

void naive_activation_backward(enum activation kind, size_t count, const double *x,
                               const double *dy, double *dx)
{
    for (size_t i = 0; i < count; i++) {
        double s = sigmoid(x[i]);
        double slope = kind == ACTIVATION_GELU
                           ? 0.5 * erfc(-x[i] / sqrt(2.0)) +
                                 x[i] * exp(-x[i] * x[i] / 2.0) / sqrt(2.0 * acos(-1.0))
                           : s * (1.0 + x[i] * (1.0 - s));
        dx[i] += slope * dy[i];
    }
}

/* ---- layer_norm: a batch_norm of the transposed matrix, except weight and bias ---- */

static void row_statistics(const struct layer_norm_shape *s, const double *row, double *mean,
                           double *inverse)
{
    double variance = 0.0;
    *mean = 0.0;
    for (size_t c = 0; c < s->C; c++) {
        *mean += row[c] / (double)s->C;
    }
    for (size_t c = 0; c < s->C; c++) {
        variance += (row[c] - *mean) * (row[c] - *mean) / (double)s->C;
    }
    *inverse = 1.0 / sqrt(variance + s->epsilon);
}

void naive_layer_norm_forward(const struct layer_norm_shape *s, const double *x,
                              const double *weight, const double *bias, double *y)
{
    for (size_t m = 0; m < s->M; m++) {
        double mean;
        double inverse;
        row_statistics(s, x + m * s->C, &mean, &inverse);
        for (size_t c = 0; c < s->C; c++) {
            y[m * s->C + c] = (x[m * s->C + c] - mean) * inverse * weight[c] + bias[c];
        }
    }
}

void naive_layer_norm_backward(const struct layer_norm_shape *s, const double *x,
                               const double *weight, const double *dy, double *dx, double *dweight,
                               double *dbias)
{
    for (size_t m = 0; m < s->M; m++) {
        const double *row = x + m * s->C;
        const double *gradient = dy + m * s->C;
        double mean;
        double inverse;
        double sum = 0.0;
        double product = 0.0;
        row_statistics(s, row, &mean, &inverse);
        for (size_t c = 0; c < s->C; c++) {
            double normalised = (row[c] - mean) * inverse;
            dweight[c] += gradient[c] * normalised;
            dbias[c] += gradient[c];
            sum += weight[c] * gradient[c] / (double)s->C;
            product += weight[c] * gradient[c] * normalised / (double)s->C;
        }
        for (size_t c = 0; c < s->C; c++) {
            double normalised = (row[c] - mean) * inverse;
            dx[m * s->C + c] += (weight[c] * gradient[c] - sum - normalised * product) * inverse;
        }
    }
}

/* ---- attention ---- */

/* Index of channel d of head j at position t: which of q, k, v is 0, 1, 2. */
static size_t part_at(const struct attention_shape *s, size_t n, size_t t, size_t which, size_t j,
                      size_t d)
{
    return ((n * s->T + t) * 3 + which) * s->C + j * (s->C / s->heads) + d;
}

/* The weight of position p for query t of head j. */
static double share_of(const struct attention_shape *s, const double *x, size_t n, size_t j,
                       size_t t, size_t p)
{
    size_t D = s->C / s->heads;
    double sum = 0.0;
    double own = 0.0;
    for (size_t i = 0; i < (s->causal ? t + 1 : s->T); i++) {
        double score = 0.0;
        for (size_t d = 0; d < D; d++) {
            score += x[part_at(s, n, t, 0, j, d)] * x[part_at(s, n, i, 1, j, d)];
        }
        sum += exp(score / sqrt((double)D));
        own = i == p ? exp(score / sqrt((double)D)) : own;
    }
    return own / sum;
}

void naive_attention_forward(const struct attention_shape *s, const double *x, double *y)
{
    size_t D = s->C / s->heads;
    for (size_t i = 0; i < s->N * s->heads * s->T; i++) {
        size_t t = i % s->T;
        size_t j = i / s->T % s->heads;
        size_t n = i / s->T / s->heads;
        for (size_t d = 0; d < D; d++) {
            y[(n * s->T + t) * s->C + j * D + d] = 0.0;
        }
        for (size_t p = 0; p < s->T; p++) {
            double share = share_of(s, x, n, j, t, p);
            for (size_t d = 0; d < D; d++) {
                y[(n * s->T + t) * s->C + j * D + d] += share * x[part_at(s, n, p, 2, j, d)];
            }
        }
    }
}

/* The gradient of query t's share of position p. */
static double share_gradient(const struct attention_shape *s, const double *x, const double *dy,
                             size_t n, size_t j, size_t t, size_t p)
{
    size_t D = s->C / s->heads;
    double sum = 0.0;
    for (size_t d = 0; d < D; d++) {
        sum += dy[(n * s->T + t) * s->C + j * D + d] * x[part_at(s, n, p, 2, j, d)];
    }
    return sum;
}

void naive_attention_backward(const struct attention_shape *s, const double *x, const double *dy,
                              double *dx)
{
    size_t D = s->C / s->heads;
    for (size_t i = 0; i < s->N * s->heads * s->T; i++) {
        size_t t = i % s->T;
        size_t j = i / s->T % s->heads;
        size_t n = i / s->T / s->heads;
        double mean = 0.0;
        for (size_t p = 0; p < s->T; p++) {
            mean += share_of(s, x, n, j, t, p) * share_gradient(s, x, dy, n, j, t, p);
        }
        for (size_t p = 0; p < s->T; p++) {
            double share = share_of(s, x, n, j, t, p);
            double score = share * (share_gradient(s, x, dy, n, j, t, p) - mean) / sqrt((double)D);
            for (size_t d = 0; d < D; d++) {
                dx[part_at(s, n, p, 2, j, d)] += share * dy[(n * s->T + t) * s->C + j * D + d];
                dx[part_at(s, n, t, 0, j, d)] += score * x[part_at(s, n, p, 1, j, d)];
                dx[part_at(s, n, p, 1, j, d)] += score * x[part_at(s, n, t, 0, j, d)];
            }
        }
    }
}

/* ---- loss ---- */

double naive_softmax_cross_entropy(size_t N, size_t C, const double *x, const int32_t *label,
                                   double smoothing, double scale, double *dx)
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
        for (size_t c = 0; c < C; c++) {
            double target = (c == (size_t)label[n] ? 1.0 - smoothing : 0.0) + smoothing / (double)C;
            total -= target * (score[c] - largest - log(sum));
            if (dx) {
                dx[n * C + c] += (exp(score[c] - largest) / sum - target) * scale;
            }
        }
    }
    return total;
}
