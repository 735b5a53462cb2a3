#include "libtrain/formats/fft.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "tests/support/test.h"

static const double pi = 3.14159265358979323846;

/* The definition, term by term. */
static double naive_power(const double *x, size_t size, size_t k)
{
    double re = 0.0;
    double im = 0.0;
    for (size_t n = 0; n < size; n++) {
        const double angle = 2.0 * pi * (double)(k * n % size) / (double)size;
        re += x[n] * cos(angle);
        im -= x[n] * sin(angle);
    }
    return re * re + im * im;
}

static void the_power_of_every_size_is_that_of_the_naive_transform(void **state)
{
    (void)state;
    for (size_t size = FFT_SIZE_MIN; size <= 1024; size *= 2) {
        struct err err = {0};
        struct fft *fft = NULL;
        const struct rng_stream stream = rng_stream(size, RNG_SIMULATION, 0, 0);
        double *x = malloc(size * sizeof(*x));
        double *power = malloc((size / 2 + 1) * sizeof(*power));
        assert_non_null(x);
        assert_non_null(power);
        assert_ok(fft_new(size, &fft, &err), &err);
        double energy = 0.0;
        for (size_t i = 0; i < size; i++) {
            x[i] = 2.0 * (double)rng_uniform(&stream, i) - 1.0;
            energy += x[i] * x[i];
        }
        fft_power(fft, x, power);
        for (size_t k = 0; k <= size / 2; k++) {
            assert_true(fabs(power[k] - naive_power(x, size, k)) < 1e-12 * (double)size * energy);
        }
        fft_free(&fft);
        assert_null(fft);
        free(x);
        free(power);
    }
}

static void a_plan_is_reusable_and_a_tone_has_one_line(void **state)
{
    (void)state;
    struct err err = {0};
    struct fft *fft = NULL;
    double x[64], power[33];
    assert_ok(fft_new(64, &fft, &err), &err);
    for (size_t tone = 1; tone < 32; tone++) {
        for (size_t i = 0; i < 64; i++) {
            x[i] = cos(2.0 * pi * (double)(tone * i) / 64.0);
        }
        fft_power(fft, x, power);
        for (size_t k = 0; k <= 32; k++) {
            assert_true(fabs(power[k] - (k == tone ? 1024.0 : 0.0)) < 1e-9);
        }
    }
    fft_free(&fft);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_power_of_every_size_is_that_of_the_naive_transform),
        cmocka_unit_test(a_plan_is_reusable_and_a_tone_has_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
