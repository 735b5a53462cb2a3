/* Log-mel spectrograms against PyTorch: make_sound_fixtures.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "libtrain/formats/log_mel.h"
#include "tests/golden/fixture.h"
#include "tests/support/test.h"

#define TOLERANCE 1e-6 /* of a logarithm, which is a float in the end */
#define CASES 5

static const double *doubles(const struct fixture *fixture, size_t number, const char *name,
                             size_t *count)
{
    char key[64];
    (void)snprintf(key, sizeof(key), "log_mel.%zu.%s", number, name);
    const double *values = fixture_data(fixture, key, DTYPE_F64, count);
    assert_non_null(values);
    return values;
}

static void spectrograms_are_those_of_pytorch(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, "sound");
    size_t number = 0;
    for (; fixture_has(&fixture, "log_mel", number); number++) {
        struct err err = {0};
        size_t samples = 0, elements = 0, settings_count = 0;
        const double *wave = doubles(&fixture, number, "wave", &samples);
        const double *mel = doubles(&fixture, number, "mel", &elements);
        const double *settings = doubles(&fixture, number, "settings", &settings_count);
        assert_int_equal(settings_count, 5);
        const struct log_mel_form form = {.rate = (size_t)settings[0],
                                          .samples = samples,
                                          .window = (size_t)settings[1],
                                          .hop = (size_t)settings[2],
                                          .mels = (size_t)settings[3],
                                          .floor = settings[4]};
        struct log_mel *plan = NULL;
        assert_ok(log_mel_new(&form, &plan, &err), &err);
        assert_int_equal(log_mel_frames(plan) * form.mels, elements);
        float *out = malloc(elements * sizeof(*out));
        assert_non_null(out);
        log_mel_run(plan, wave, out);
        for (size_t i = 0; i < elements; i++) {
            assert_true(fabs((double)out[i] - mel[i]) < TOLERANCE * fmax(1.0, fabs(mel[i])));
        }
        free(out);
        log_mel_free(&plan);
    }
    assert_int_equal(number, CASES);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spectrograms_are_those_of_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
