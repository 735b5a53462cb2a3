#include "coordinator/plan/latency.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/test.h"

#define N LATENCY_FEATURES
#define SAMPLES 400

/* A random prior, units and times around a device's vector. */
struct world {
    struct rng_stream stream;
    uint64_t draws;
    struct latency_prior prior;
    struct latency_start start;
    double vector[N];
};

static double uniform(struct world *world)
{
    return (double)rng_uniform(&world->stream, world->draws++) * 2 - 1;
}

/* Variance 1. */
static double normal(struct world *world)
{
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        sum += uniform(world) / 2;
    }
    return sum;
}

static void draw_features(struct world *world, double *features)
{
    features[0] = 1;
    for (size_t i = 1; i < N; i++) {
        features[i] = 2 * uniform(world);
    }
}

static double time_of(const double *vector, const double *features)
{
    double sum = 0;
    for (size_t i = 0; i < N; i++) {
        sum += vector[i] * features[i];
    }
    return sum;
}

/* Covariance A A' + 0.01. */
static void make_world(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    world->stream = rng_stream(seed, RNG_SIMULATION, 0, 0);
    double a[N][N], z[N];
    for (size_t i = 0; i < N; i++) {
        world->prior.mean[i] = uniform(world);
        z[i] = normal(world);
        for (size_t j = 0; j < N; j++) {
            a[i][j] = 0.1 * normal(world);
        }
    }
    for (size_t i = 0; i < N; i++) {
        world->vector[i] = world->prior.mean[i];
        for (size_t j = 0; j < N; j++) {
            world->vector[i] += a[i][j] * z[j];
        }
        for (size_t j = 0; j <= i; j++) {
            double sum = i == j ? 0.01 : 0;
            for (size_t k = 0; k < N; k++) {
                sum += a[i][k] * a[j][k];
            }
            world->prior.covariance[i * (i + 1) / 2 + j] = sum;
        }
    }
    world->prior.noise_sd = 0.15;
    assert_true(latency_begin(&world->prior, &world->start));
}

static struct latency_vector solved(const struct world *world, const struct latency_fit *fit)
{
    struct latency_vector vector;
    assert_true(latency_solve(&world->start, fit, &vector));
    return vector;
}

/* Solve A x = b by Gaussian elimination with pivots: another way than the module's. */
static void eliminate(double a[N][N], double *b)
{
    for (size_t column = 0; column < N; column++) {
        size_t pivot = column;
        for (size_t i = column + 1; i < N; i++) {
            pivot = fabs(a[i][column]) > fabs(a[pivot][column]) ? i : pivot;
        }
        for (size_t j = 0; j < N; j++) {
            const double kept = a[column][j];
            a[column][j] = a[pivot][j];
            a[pivot][j] = kept;
        }
        const double kept = b[column];
        b[column] = b[pivot];
        b[pivot] = kept;
        for (size_t i = 0; i < N; i++) {
            const double factor = i == column ? 0 : a[i][column] / a[column][column];
            for (size_t j = 0; j < N; j++) {
                a[i][j] -= factor * a[column][j];
            }
            b[i] -= factor * b[column];
        }
    }
    for (size_t i = 0; i < N; i++) {
        b[i] /= a[i][i];
    }
}

/* Without its inverse: S0 X' X w + noise^2 w = S0 X' y + noise^2 m0. */
static void batch_map(const struct world *world, double features[][N], const double *y,
                      size_t count, double *out)
{
    static double gram[N][N], system[N][N], right[N];
    const double noise = world->prior.noise_sd * world->prior.noise_sd;
    memset(gram, 0, sizeof(gram));
    memset(right, 0, sizeof(right));
    for (size_t s = 0; s < count; s++) {
        for (size_t i = 0; i < N; i++) {
            right[i] += features[s][i] * y[s];
            for (size_t j = 0; j < N; j++) {
                gram[i][j] += features[s][i] * features[s][j];
            }
        }
    }
    for (size_t i = 0; i < N; i++) {
        out[i] = noise * world->prior.mean[i];
        for (size_t j = 0; j < N; j++) {
            system[i][j] = i == j ? noise : 0;
        }
        for (size_t k = 0; k < N; k++) {
            const size_t at = i >= k ? i * (i + 1) / 2 + k : k * (k + 1) / 2 + i;
            out[i] += world->prior.covariance[at] * right[k];
            for (size_t j = 0; j < N; j++) {
                system[i][j] += world->prior.covariance[at] * gram[k][j];
            }
        }
    }
    eliminate(system, out);
}

static void without_forgetting_the_mean_is_the_batch_estimate(void **state)
{
    (void)state;
    static double features[SAMPLES][N], y[SAMPLES];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world world;
        struct latency_fit fit;
        double expected[N];
        make_world(&world, seed);
        latency_reset(&world.start, &fit);
        const size_t count = 1 + (size_t)(seed * 17 % SAMPLES);
        for (size_t s = 0; s < count; s++) {
            draw_features(&world, features[s]);
            y[s] = time_of(world.vector, features[s]) + 0.15 * normal(&world);
            assert_true(latency_learn(&world.start, 1, features[s], y[s], &fit));
        }
        batch_map(&world, features, y, count, expected);
        assert_close(solved(&world, &fit).mean, expected, N, 1e-8);
        assert_true(latency_valid(&world.start, &fit));
    }
}

static void a_new_device_starts_at_the_mean_of_known_ones(void **state)
{
    (void)state;
    struct world world;
    struct latency_fit fit;
    make_world(&world, 7);
    latency_reset(&world.start, &fit);
    assert_close(solved(&world, &fit).mean, world.prior.mean, N, 1e-9);
    assert_true(latency_valid(&world.start, &fit));
}

/* Plain forgetting winds up: with 0.97 the deviation of units that never run grew to 146. */
static void no_unit_gets_less_certain_than_its_prior(void **state)
{
    (void)state;
    struct world world;
    struct latency_fit start, fit;
    double run[3][N], never[8][N];
    make_world(&world, 11);
    latency_reset(&world.start, &start);
    fit = start;
    for (size_t i = 0; i < 3; i++) {
        draw_features(&world, run[i]);
    }
    for (size_t i = 0; i < 8; i++) {
        draw_features(&world, never[i]);
    }
    const struct latency_vector before = solved(&world, &start);
    for (int s = 0; s < 2000; s++) {
        const double *features = run[s % 3];
        assert_true(latency_learn(&world.start, 0.97, features,
                                  time_of(world.vector, features) + 0.15 * normal(&world), &fit));
        const struct latency_vector after = solved(&world, &fit);
        for (size_t i = 0; i < 8; i++) {
            assert_true(latency_predict(&after, never[i]).sd <=
                        latency_predict(&before, never[i]).sd * (1 + 1e-9));
        }
    }
    assert_true(latency_valid(&world.start, &fit));
}

static void more_data_never_makes_a_unit_less_certain(void **state)
{
    (void)state;
    struct world world;
    struct latency_fit fit;
    double unit[N];
    make_world(&world, 13);
    latency_reset(&world.start, &fit);
    draw_features(&world, unit);
    double sd = INFINITY;
    for (int s = 0; s < SAMPLES; s++) {
        double features[N];
        draw_features(&world, features);
        assert_true(latency_learn(&world.start, 1, features, uniform(&world), &fit));
        const struct latency_vector vector = solved(&world, &fit);
        const double next = latency_predict(&vector, unit).sd;
        assert_true(next <= sd * (1 + 1e-9) && next >= world.prior.noise_sd);
        sd = next;
    }
}

static void a_device_at_half_its_speed_is_followed(void **state)
{
    (void)state;
    static const double keeps[] = {0.96, 0.97, 0.99};
    for (size_t k = 0; k < 3; k++) {
        struct world world;
        struct latency_fit fit;
        double unit[5][N];
        make_world(&world, 17 + k);
        latency_reset(&world.start, &fit);
        for (size_t i = 0; i < 5; i++) {
            draw_features(&world, unit[i]);
        }
        const int samples = (int)(3 / (1 - keeps[k]));
        for (int s = 0; s < 10 * samples; s++) {
            (void)latency_learn(&world.start, keeps[k], unit[s % 5],
                                time_of(world.vector, unit[s % 5]), &fit);
        }
        for (int s = 0; s < samples; s++) {
            (void)latency_learn(&world.start, keeps[k], unit[s % 5],
                                time_of(world.vector, unit[s % 5]) + log(2), &fit);
        }
        const struct latency_vector vector = solved(&world, &fit);
        for (size_t i = 0; i < 5; i++) {
            const double change =
                latency_predict(&vector, unit[i]).mean - time_of(world.vector, unit[i]);
            if (fabs(change / log(2) - 1) > 0.15) {
                fail_msg("keep %g: the prediction changed by %g of the logarithm", keeps[k],
                         change / log(2));
            }
        }
    }
}

static void values_that_are_no_measurement_are_ignored(void **state)
{
    (void)state;
    static const double bad[] = {NAN,   INFINITY, -INFINITY,
                                 1e300, -1e300,   LATENCY_TARGET_MAX * 1.01};
    struct world world;
    struct latency_fit fit, before;
    double features[N];
    make_world(&world, 19);
    latency_reset(&world.start, &fit);
    before = fit;
    draw_features(&world, features);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(latency_learn(&world.start, 0.97, features, bad[i], &fit));
        double other[N];
        memcpy(other, features, sizeof(other));
        other[3] = 100 * bad[i];
        assert_false(latency_learn(&world.start, 0.97, other, 0, &fit));
    }
    assert_false(latency_learn(&world.start, 0, features, 0, &fit));
    assert_false(latency_learn(&world.start, 1.5, features, 0, &fit));
    assert_false(latency_learn(&world.start, NAN, features, 0, &fit));
    assert_memory_equal(&fit, &before, sizeof(fit));
}

static void fits_from_outside_are_checked(void **state)
{
    (void)state;
    struct world world;
    struct latency_fit good, fit;
    make_world(&world, 23);
    latency_reset(&world.start, &good);
    assert_true(latency_valid(&world.start, &good));
    static const double bad[] = {NAN, INFINITY, -1, 0, 1e300};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fit = good;
        fit.information[5] = bad[i]; /* on the diagonal */
        assert_false(latency_valid(&world.start, &fit));
        fit = good;
        fit.weighted[2] = bad[i] == 0 || bad[i] == -1 ? 1e12 : bad[i];
        assert_false(latency_valid(&world.start, &fit));
    }
    memset(&fit, 0, sizeof(fit));
    assert_false(latency_valid(&world.start, &fit));
}

static void a_prior_that_is_no_distribution_is_rejected(void **state)
{
    (void)state;
    struct world world;
    make_world(&world, 29);
    struct latency_prior prior = world.prior;
    prior.covariance[0] = 0;
    assert_false(latency_begin(&prior, &world.start));
    prior = world.prior;
    prior.noise_sd = 0;
    assert_false(latency_begin(&prior, &world.start));
}

static void the_shipped_priors_are_distributions(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct latency_start start;
        struct latency_fit fit;
        assert_true(latency_begin(&latency_priors[i], &start));
        latency_reset(&start, &fit);
        assert_true(latency_valid(&start, &fit));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_forgetting_the_mean_is_the_batch_estimate),
        cmocka_unit_test(a_new_device_starts_at_the_mean_of_known_ones),
        cmocka_unit_test(no_unit_gets_less_certain_than_its_prior),
        cmocka_unit_test(more_data_never_makes_a_unit_less_certain),
        cmocka_unit_test(a_device_at_half_its_speed_is_followed),
        cmocka_unit_test(values_that_are_no_measurement_are_ignored),
        cmocka_unit_test(fits_from_outside_are_checked),
        cmocka_unit_test(a_prior_that_is_no_distribution_is_rejected),
        cmocka_unit_test(the_shipped_priors_are_distributions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
