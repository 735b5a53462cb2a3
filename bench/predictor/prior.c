#include "bench/predictor/prior.h"

#include <math.h>
#include <string.h>

#define ITERATIONS 40
#define N LATENCY_FEATURES
#define NOISE_START 0.25
#define NOISE_MIN 0.05
#define SAMPLE_WEIGHT 1.0

/* Standard deviations between machines, added to those that were seen: of the overall speed
 * relative to the probe, of the effect of FLOPs and bytes, of the kind of op, of shapes, of
 * squares.
 */
static const double SPREAD[N] = {0.5, 0.1, 0.1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.1,
                                 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
/* Before anything was seen: the cost model is right within a factor of about 3. */
#define START_SD 1.0

static size_t at(size_t i, size_t j)
{
    return i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i;
}

/* The covariance of a vector: the inverse of F F'. */
static void invert(const struct latency_vector *vector, double *out)
{
    struct latency_prior prior = {.noise_sd = 1};
    struct latency_start start;
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t k = 0; k <= j; k++) {
                sum += vector->factor[at(i, k)] * vector->factor[at(j, k)];
            }
            prior.covariance[at(i, j)] = sum;
        }
    }
    memset(out, 0, LATENCY_PACKED * sizeof(out[0]));
    if (latency_begin(&prior, &start)) {
        memcpy(out, start.information, sizeof(start.information));
    }
}

/* The sums of one iteration. */
struct sums {
    double covariance[LATENCY_PACKED]; /* of the devices' vectors around the mean */
    double residual;
    size_t count;
};

static bool expect(const struct latency_prior *prior, const struct samples *device,
                   struct sums *sums)
{
    struct latency_start start;
    struct latency_fit fit;
    struct latency_vector vector;
    double covariance[LATENCY_PACKED];
    if (!latency_begin(prior, &start)) {
        return false;
    }
    latency_reset(&start, &fit);
    for (size_t s = 0; s < device->count; s++) {
        (void)latency_learn(&start, 1, device->item[s].features, device->item[s].logarithm, &fit);
    }
    if (!latency_solve(&start, &fit, &vector)) {
        return false;
    }
    invert(&vector, covariance);
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j <= i; j++) {
            sums->covariance[at(i, j)] +=
                covariance[at(i, j)] +
                (vector.mean[i] - prior->mean[i]) * (vector.mean[j] - prior->mean[j]) +
                (i == j ? 1e-4 : 0);
        }
    }
    for (size_t s = 0; s < device->count; s++) {
        const struct latency_answer answer = latency_predict(&vector, device->item[s].features);
        const double error = device->item[s].logarithm - answer.mean;
        sums->residual += error * error + answer.sd * answer.sd - vector.noise_sd * vector.noise_sd;
    }
    sums->count += device->count;
    return true;
}

/* The vector of all devices together. Their samples are of few units, which are not independent:
 * each counts SAMPLE_WEIGHT. */
static bool fit_mean(const struct samples *device, size_t device_count, struct latency_prior *out)
{
    struct latency_start start;
    struct latency_fit fit;
    struct latency_vector vector;
    if (!latency_begin(out, &start)) {
        return false;
    }
    latency_reset(&start, &fit);
    for (size_t d = 0; d < device_count; d++) {
        for (size_t s = 0; s < device[d].count; s++) {
            double features[N];
            for (size_t i = 0; i < N; i++) {
                features[i] = sqrt(SAMPLE_WEIGHT) * device[d].item[s].features[i];
            }
            (void)latency_learn(&start, 1, features,
                                sqrt(SAMPLE_WEIGHT) * device[d].item[s].logarithm, &fit);
        }
    }
    if (!latency_solve(&start, &fit, &vector)) {
        return false;
    }
    memcpy(out->mean, vector.mean, sizeof(out->mean));
    return true;
}

bool prior_fit(const struct samples *device, size_t device_count, struct latency_prior *out)
{
    memset(out, 0, sizeof(*out));
    out->noise_sd = NOISE_START;
    for (size_t i = 0; i < N; i++) {
        out->covariance[at(i, i)] = START_SD * START_SD;
    }
    if (!fit_mean(device, device_count, out)) {
        return false;
    }
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        static struct sums sums;
        const double scale = 1 / (double)device_count;
        memset(&sums, 0, sizeof(sums));
        for (size_t d = 0; d < device_count; d++) {
            if (!expect(out, &device[d], &sums)) {
                return false;
            }
        }
        for (size_t i = 0; i < LATENCY_PACKED; i++) {
            out->covariance[i] = sums.covariance[i] * scale;
        }
        out->noise_sd = fmax(sqrt(sums.residual / (double)sums.count), NOISE_MIN);
    }
    for (size_t i = 0; i < N; i++) {
        out->covariance[at(i, i)] += SPREAD[i] * SPREAD[i];
    }
    return true;
}
