#include "libtrain/formats/log_mel.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

#define SAMPLES 2000

static const double pi = 3.14159265358979323846;

/* Noise of 16 bits, the same on every machine. */
static void draw_wave(double wave[SAMPLES])
{
    uint32_t state = 1;
    for (size_t i = 0; i < SAMPLES; i++) {
        state = state * 1664525u + 1013904223u;
        wave[i] = (double)((int32_t)(state >> 16) - 32768) / 32768.0;
    }
}

static double mel_hertz(double rate, size_t corner, size_t bands)
{
    double mel = 2595.0 * log10(1.0 + rate / 2.0 / 700.0) * (double)corner / (double)(bands + 1);
    return 700.0 * (pow(10.0, mel / 2595.0) - 1.0);
}

/* The energy of a band of one frame, from the definitions and libm. */
static double naive_energy(const struct log_mel_form *form, const double *frame, size_t size,
                           size_t band)
{
    const double rate = (double)form->rate;
    const double low = mel_hertz(rate, band, form->mels);
    const double middle = mel_hertz(rate, band + 1, form->mels);
    const double high = mel_hertz(rate, band + 2, form->mels);
    double energy = 0.0;
    for (size_t k = 0; k <= size / 2; k++) {
        const double hertz = (double)k * rate / (double)size;
        const double weight =
            fmax(0.0, fmin((hertz - low) / (middle - low), (high - hertz) / (high - middle)));
        double re = 0.0;
        double im = 0.0;
        for (size_t n = 0; n < form->window && weight > 0.0; n++) {
            const double hann = 0.5 - 0.5 * cos(2.0 * pi * (double)n / (double)form->window);
            const double angle = 2.0 * pi * (double)(k * n % size) / (double)size;
            re += frame[n] * hann * cos(angle);
            im += frame[n] * hann * sin(angle);
        }
        energy += weight * (re * re + im * im);
    }
    return energy;
}

static void check_form(const struct log_mel_form *form, size_t size, size_t frames)
{
    static double wave[SAMPLES];
    struct err err = {0};
    struct log_mel *plan = NULL;
    draw_wave(wave);
    memset(wave + 1500, 0, 500 * sizeof(wave[0]));
    assert_ok(log_mel_new(form, &plan, &err), &err);
    assert_int_equal(log_mel_frames(plan), frames);
    float *out = malloc(frames * form->mels * sizeof(*out));
    assert_non_null(out);
    log_mel_run(plan, wave, out);
    for (size_t frame = 0; frame < frames; frame++) {
        for (size_t band = 0; band < form->mels; band++) {
            const double expected =
                log(fmax(form->floor, naive_energy(form, wave + frame * form->hop, size, band)));
            assert_true(fabs((double)out[frame * form->mels + band] - expected) < 1e-5);
        }
    }
    free(out);
    log_mel_free(&plan);
}

static void spectrograms_are_those_of_the_naive_transform(void **state)
{
    (void)state;
    static const struct {
        struct log_mel_form form;
        size_t size, frames;
    } cases[] = {
        {{.rate = 8000, .samples = 2000, .window = 320, .hop = 160, .mels = 10, .floor = 1e-6},
         512,
         11},
        {{.rate = 8000, .samples = 2000, .window = 256, .hop = 300, .mels = 7, .floor = 1e-3},
         256,
         6},
        {{.rate = 4000, .samples = 100, .window = 100, .hop = 1000, .mels = 3, .floor = 1.0},
         128,
         1},
        {{.rate = 11025, .samples = 40, .window = 2, .hop = 1, .mels = 1, .floor = 1e-6}, 4, 39},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_form(&cases[i].form, cases[i].size, cases[i].frames);
    }
}

/* The result of gcc on x86-64, and of every compiler everywhere: no libm, no contraction, one order
 * of sums. */
static void the_bits_are_the_same_on_every_machine(void **state)
{
    (void)state;
    static const struct log_mel_form form = {
        .rate = 8000, .samples = 2000, .window = 320, .hop = 160, .mels = 10, .floor = 1e-6};
    static double wave[SAMPLES];
    struct err err = {0};
    struct log_mel *plan = NULL;
    float out[11 * 10];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    draw_wave(wave);
    assert_ok(log_mel_new(&form, &plan, &err), &err);
    log_mel_run(plan, wave, out);
    for (size_t i = 0; i < 110; i++) {
        uint32_t bits;
        memcpy(&bits, &out[i], sizeof(bits));
        hash = (hash ^ bits) * UINT64_C(0x100000001b3);
    }
    assert_true(hash == UINT64_C(0x295a53333bf1f741));
    log_mel_free(&plan);
}

static void impossible_forms_are_rejected(void **state)
{
    (void)state;
    static const struct {
        struct log_mel_form form;
        const char *part;
    } cases[] = {
        {{.rate = 8000, .samples = 100, .window = 101, .hop = 10, .mels = 4, .floor = 1e-6},
         "clips of 100 samples cannot be cut into windows of 101"},
        {{.rate = 8000, .samples = 100, .window = 1, .hop = 10, .mels = 4, .floor = 1e-6},
         "windows of 1 samples"},
        {{.rate = 8000, .samples = 100, .window = 50, .hop = 0, .mels = 4, .floor = 1e-6},
         "one every 0 samples"},
        {{.rate = 8000, .samples = 8000, .window = 80, .hop = 80, .mels = 60, .floor = 1e-6},
         "lies between two frequencies of the spectrum: take fewer bands or a longer window"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = {0};
        struct log_mel *plan = NULL;
        assert_int_equal(log_mel_new(&cases[i].form, &plan, &err), ERR_INVALID);
        assert_null(plan);
        assert_holds(err.text, cases[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spectrograms_are_those_of_the_naive_transform),
        cmocka_unit_test(the_bits_are_the_same_on_every_machine),
        cmocka_unit_test(impossible_forms_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
