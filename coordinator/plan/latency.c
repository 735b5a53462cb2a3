#include "coordinator/plan/latency.h"

#include <math.h>

/* More information than a fit can have learned from its measurements. */
#define INFORMATION_MAX 1e15

static size_t at(size_t i, size_t j)
{
    return i * (i + 1) / 2 + j;
}

/* Lower Cholesky factor of a symmetric positive definite matrix. */
static bool factorise(const double *matrix, double *factor)
{
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        for (size_t j = 0; j <= i; j++) {
            double sum = matrix[at(i, j)];
            for (size_t k = 0; k < j; k++) {
                sum -= factor[at(i, k)] * factor[at(j, k)];
            }
            if (i == j && !(sum > 0 && isfinite(sum))) {
                return false;
            }
            factor[at(i, j)] = i == j ? sqrt(sum) : sum / factor[at(j, j)];
        }
    }
    return true;
}

/* Solve F x = x in place, F lower triangular. */
static void solve_lower(const double *factor, double *x)
{
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        for (size_t k = 0; k < i; k++) {
            x[i] -= factor[at(i, k)] * x[k];
        }
        x[i] /= factor[at(i, i)];
    }
}

/* Solve F' x = x in place. */
static void solve_upper(const double *factor, double *x)
{
    for (size_t i = LATENCY_FEATURES; i-- > 0;) {
        for (size_t k = i + 1; k < LATENCY_FEATURES; k++) {
            x[i] -= factor[at(k, i)] * x[k];
        }
        x[i] /= factor[at(i, i)];
    }
}

bool latency_begin(const struct latency_prior *prior, struct latency_start *out)
{
    double factor[LATENCY_PACKED];
    if (!factorise(prior->covariance, factor) || !(prior->noise_sd > 0)) {
        return false;
    }
    for (size_t column = 0; column < LATENCY_FEATURES; column++) {
        double x[LATENCY_FEATURES] = {0};
        x[column] = 1;
        solve_lower(factor, x);
        solve_upper(factor, x);
        for (size_t i = column; i < LATENCY_FEATURES; i++) {
            out->information[at(i, column)] = x[i];
        }
    }
    latency_move(prior->mean, out);
    out->noise_sd = prior->noise_sd;
    return true;
}

void latency_move(const double *mean, struct latency_start *start)
{
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        start->weighted[i] = 0;
        for (size_t k = 0; k < LATENCY_FEATURES; k++) {
            start->weighted[i] += start->information[i >= k ? at(i, k) : at(k, i)] * mean[k];
        }
    }
}

void latency_reset(const struct latency_start *start, struct latency_fit *fit)
{
    for (size_t i = 0; i < LATENCY_PACKED; i++) {
        fit->information[i] = start->information[i];
    }
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        fit->weighted[i] = start->weighted[i];
    }
}

/* The comparisons are false for NaN. */
static bool is_bounded(const double *features, double logarithm)
{
    bool bounded = fabs(logarithm) <= LATENCY_TARGET_MAX;
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        bounded = bounded && fabs(features[i]) <= LATENCY_FEATURE_MAX;
    }
    return bounded;
}

bool latency_learn(const struct latency_start *start, double keep, const double *features,
                   double logarithm, struct latency_fit *fit)
{
    const double precision = 1 / (start->noise_sd * start->noise_sd);
    if (!is_bounded(features, logarithm) || !(keep > 0 && keep <= 1)) {
        return false;
    }
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        for (size_t j = 0; j <= i; j++) {
            fit->information[at(i, j)] = keep * fit->information[at(i, j)] +
                                         (1 - keep) * start->information[at(i, j)] +
                                         precision * features[i] * features[j];
        }
        fit->weighted[i] = keep * fit->weighted[i] + (1 - keep) * start->weighted[i] +
                           precision * features[i] * logarithm;
    }
    return true;
}

bool latency_solve(const struct latency_start *start, const struct latency_fit *fit,
                   struct latency_vector *out)
{
    if (!factorise(fit->information, out->factor)) {
        return false;
    }
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        out->mean[i] = fit->weighted[i];
    }
    solve_lower(out->factor, out->mean);
    solve_upper(out->factor, out->mean);
    out->noise_sd = start->noise_sd;
    return true;
}

struct latency_answer latency_predict(const struct latency_vector *vector, const double *features)
{
    struct latency_answer answer = {0};
    double x[LATENCY_FEATURES];
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        answer.mean += vector->mean[i] * features[i];
        x[i] = features[i];
    }
    solve_lower(vector->factor, x); /* |F^-1 phi|^2 = phi' L^-1 phi */
    double variance = vector->noise_sd * vector->noise_sd;
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        variance += x[i] * x[i];
    }
    answer.sd = sqrt(variance);
    return answer;
}

/* No information is lost below that of the start, so L - S0^-1 is positive semidefinite: adding a
 * little of S0^-1 lets rounding pass. */
bool latency_valid(const struct latency_start *start, const struct latency_fit *fit)
{
    double more[LATENCY_PACKED], factor[LATENCY_PACKED];
    for (size_t i = 0; i < LATENCY_PACKED; i++) {
        if (!(fabs(fit->information[i]) <= INFORMATION_MAX)) {
            return false;
        }
        more[i] = fit->information[i] - (1 - 1e-6) * start->information[i];
    }
    struct latency_vector vector;
    if (!factorise(more, factor) || !latency_solve(start, fit, &vector)) {
        return false;
    }
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        if (!(fabs(vector.mean[i]) <= LATENCY_FEATURE_MAX)) {
            return false;
        }
    }
    return true;
}
