/* latency.h: predicts the logarithm of a unit's time on a device from features of the unit. One
 * linear regression per device and pass is updated with each measurement. It starts at the vectors
 * of known devices and forgets towards them. Pure: numbers in, numbers out.
 *
 * The idea of an adaptive latency predictor is AccEPT's (arXiv 2311.05827); features and estimator
 * are our own derivation. docs/adr/0074 says why it forgets towards its prior. */
#ifndef COORDINATOR_PLAN_LATENCY_H
#define COORDINATOR_PLAN_LATENCY_H

#include <stdbool.h>
#include <stddef.h>

#define LATENCY_FEATURES 18
#define LATENCY_PACKED (LATENCY_FEATURES * (LATENCY_FEATURES + 1) / 2)
/* Greatest magnitude of a feature, and of a logarithm relative to its base: larger ones are no
 * measurement. */
#define LATENCY_FEATURE_MAX 1e3
#define LATENCY_TARGET_MAX 16.0

/* Symmetric matrices keep their lower triangle, row by row: element (i, j), j <= i, at
 * i (i + 1) / 2 + j. */

/* Normal distribution of the vectors of known devices, and the deviation of a unit's logarithm from
 * its device's regression. latency_prior.c has the shipped prior, computed by bench/predictor. */
struct latency_prior {
    double mean[LATENCY_FEATURES];
    double covariance[LATENCY_PACKED];
    double noise_sd;
};
/* By pass: index 0 forward, 1 backward. */
extern const struct latency_prior latency_priors[2];

/* Inverse of a prior's covariance, and its product with the mean. */
struct latency_start {
    double information[LATENCY_PACKED];
    double weighted[LATENCY_FEATURES];
    double noise_sd;
};

/* The regression of one device. */
struct latency_fit {
    double information[LATENCY_PACKED]; /* L, the inverse of the vector's covariance */
    double weighted[LATENCY_FEATURES];  /* h = L times the mean */
};

/* A fit ready for predictions. */
struct latency_vector {
    double factor[LATENCY_PACKED]; /* lower Cholesky factor of L */
    double mean[LATENCY_FEATURES];
    double noise_sd;
};

struct latency_answer {
    double mean; /* of the logarithm */
    double sd;   /* of the vector and of the unit */
};

/* Compute the start of new devices. false: the prior is not a distribution. */
bool latency_begin(const struct latency_prior *prior, struct latency_start *out);
/* Give the start another mean[LATENCY_FEATURES]. */
void latency_move(const double *mean, struct latency_start *start);
/* Set a fit to the start: that of a device without measurements. */
void latency_reset(const struct latency_start *start, struct latency_fit *fit);
/* Learn one measurement: features[LATENCY_FEATURES] and the logarithm of the time. With phi and y
 * in units of the noise:
 *
 *     L = keep L + (1 - keep) S0^-1 + phi phi'    h = keep h + (1 - keep) S0^-1 m0 + phi y
 *
 * keep 1: nothing is forgotten. Values outside the bounds are ignored: false. */
bool latency_learn(const struct latency_start *start, double keep, const double *features,
                   double logarithm, struct latency_fit *fit);
/* Return whether latency_learn could have made a fit that comes from outside. */
bool latency_valid(const struct latency_start *start, const struct latency_fit *fit);
/* Factorise the fit. false: the fit is not a distribution, and `out` is undefined. */
bool latency_solve(const struct latency_start *start, const struct latency_fit *fit,
                   struct latency_vector *out);
/* Predict a unit. */
struct latency_answer latency_predict(const struct latency_vector *vector, const double *features);

#endif
