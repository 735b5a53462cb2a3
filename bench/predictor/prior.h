/* prior.h: fits the prior of the latency predictor to devices that were measured: the mean and the
 * covariance of their vectors, by expectation maximisation. One thread. */
#ifndef BENCH_PREDICTOR_PRIOR_H
#define BENCH_PREDICTOR_PRIOR_H

#include "coordinator/plan/latency.h"

/* A unit's features and the logarithm of its time over the cost model's. */
struct sample {
    double features[LATENCY_FEATURES];
    double logarithm;
};

/* The samples of one device. */
struct samples {
    const struct sample *item;
    size_t count;
};

/* Fit. What devices of one machine cannot say, how far other machines are from them, is added to
 * the covariance (SPREAD in prior.c). false: the samples give no distribution. */
bool prior_fit(const struct samples *device, size_t device_count, struct latency_prior *out);

#endif
