#include <math.h>
#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/formats_support.h"

#define SAMPLES 800 /* a tenth of a second */

static struct bytes archive, wav; /* too large for a stack */

static int append(void *arg, const void *data, size_t size, struct err *err)
{
    return buf_append(arg, data, size, err);
}

static int convert_limited(const char *how, const struct dataset_limits *limits,
                           struct converted *out, struct err *err)
{
    struct reading reading;
    assert_ok(reading_parse(how, &reading, err), err);
    int fd = memory_file(&archive);
    buf_init(&out->file, 1 << 20);
    int rc = dataset_convert(&fd, 1, &reading, limits, append, &out->file, &out->info, err);
    file_close(&fd);
    return rc;
}

static int convert_sound(const char *how, struct converted *out, struct err *err)
{
    static const struct dataset_limits limits = {.total_bytes = 1 << 20, .entries = 8};
    return convert_limited(how, &limits, out, err);
}

static void sound_fails(const char *how, int code, const char *part)
{
    struct converted converted;
    struct err err = {0};
    assert_int_equal(convert_sound(how, &converted, &err), code);
    assert_holds(err.text, part);
    converted_done(&converted);
}

/* A tone, with the given periods in a tenth of a second. */
static void put_tone(const char *name, int times)
{
    static int16_t samples[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        samples[i] = (int16_t)lrint(20000.0 * sin(2.0 * 3.14159265358979 * times * i / SAMPLES));
    }
    wav.size = 0;
    put_wav(&wav, 1, 1, 8000, 16, samples, sizeof(samples));
    put_tar_entry(&archive, name, '0', wav.data, wav.size);
}

static const float *frame_of(const struct converted *converted, size_t sample, size_t frame)
{
    const struct dataset_info *info = &converted->info;
    static float row[256];
    memcpy(row, inputs_of(converted) + ((sample * info->h + frame) * info->w) * sizeof(float),
           info->w * sizeof(float));
    return row;
}

static size_t loudest(const float *row, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

static void recordings_become_spectrograms_whose_bands_follow_the_tone(void **state)
{
    (void)state;
    struct converted converted;
    struct err err = {0};
    archive.size = 0;
    put_tone("low/a.wav", 20);   /* 200 Hz */
    put_tone("high/a.wav", 300); /* 3,000 Hz */
    put_tone("high/b.wav", 300);
    put_tar_end(&archive);
    assert_ok(convert_sound("sound=8000", &converted, &err), &err);
    const struct dataset_info *info = &converted.info;
    assert_int_equal(info->count, 3);
    assert_int_equal(info->h, 49);
    assert_int_equal(info->w, 10);
    assert_int_equal(info->c, 1);
    assert_int_equal(info->dtype, DTYPE_F32);
    assert_int_equal(info->classes, 2);
    assert_string_equal(info->reading,
                        "sound=8000,clip_ms=1000,window_ms=40,hop_ms=20,mels=10,floor_db=60");
    assert_int_equal(label_of(&converted, 0), 1);
    assert_int_equal(label_of(&converted, 1), 0);
    assert_int_equal(loudest(frame_of(&converted, 0, 0), 10), 0);
    assert_int_equal(loudest(frame_of(&converted, 1, 0), 10), 9);
    /* After the recording there is silence: the floor of -60 dB. */
    for (size_t band = 0; band < 10; band++) {
        assert_true(frame_of(&converted, 1, 48)[band] == (float)-13.815510557964274);
    }
    assert_memory_equal(inputs_of(&converted) + (size_t)49 * 10 * 4,
                        inputs_of(&converted) + (size_t)2 * 49 * 10 * 4, (size_t)49 * 10 * 4);
    converted_done(&converted);
}

static void parameters_set_the_shape_and_the_floor(void **state)
{
    (void)state;
    struct converted converted;
    struct err err = {0};
    archive.size = 0;
    put_tone("7_a.wav", 20);
    put_tone("3_b.wav", 20);
    put_tar_end(&archive);
    assert_ok(convert_sound(
                  "sound=8000,label=prefix,clip_ms=200,window_ms=32,hop_ms=12,mels=16,floor_db=20",
                  &converted, &err),
              &err);
    assert_int_equal(converted.info.h, 15);
    assert_int_equal(converted.info.w, 16);
    assert_int_equal(label_of(&converted, 0), 1);
    assert_int_equal(label_of(&converted, 1), 0);
    assert_true(frame_of(&converted, 0, 14)[3] == (float)-4.605170185988091);
    converted_done(&converted);
}

static void faults_name_the_entry_or_the_parameters(void **state)
{
    (void)state;
    archive.size = 0;
    put_tone("low/a.wav", 20);
    put_tar_entry(&archive, "low/notes.txt", '0', "what I heard", 12);
    put_tar_end(&archive);
    sound_fails("sound=8000", ERR_FORMAT, "low/notes.txt: is not a WAV file");
    sound_fails("sound=16000", ERR_UNSUPPORTED,
                "low/a.wav: 8000 samples a second, the data set has 16000");
    sound_fails("sound=8000,label=prefix", ERR_FORMAT, "low/a.wav: its name has no class");
    sound_fails("sound=8000,clip_ms=30", ERR_INVALID,
                "clips of 240 samples cannot be cut into windows of 320 samples");
    sound_fails("sound=8000,mels=200", ERR_INVALID, "of 200");
    archive.size = 0;
    put_tar_entry(&archive, "low/a.wav", '0', wav.data, wav.size - 100);
    put_tar_end(&archive);
    sound_fails("sound=8000", ERR_FORMAT, "low/a.wav: has 1544 bytes, its RIFF header says 1644");
    archive = wav;
    sound_fails("sound=8000", ERR_FORMAT, "file 1: is not a tar");
    sound_fails("sound=8000,clip_ms=10000,window_ms=200,hop_ms=1", ERR_FORMAT, "is not a tar");
}

static void a_packed_archive_gives_the_same(void **state)
{
    (void)state;
    struct converted plain, packed;
    struct err err = {0};
    archive.size = 0;
    put_tone("low/a.wav", 20);
    compress_gzip(&wav);
    put_tar_entry(&archive, "high/a.wav.gz", '0', wav.data, wav.size);
    put_tar_end(&archive);
    assert_ok(convert_sound("sound=8000", &plain, &err), &err);
    compress_gzip(&archive);
    assert_ok(convert_sound("sound=8000", &packed, &err), &err);
    assert_int_equal(plain.file.size, packed.file.size);
    assert_memory_equal(plain.file.data, packed.file.data, plain.file.size);
    converted_done(&plain);
    converted_done(&packed);
}

static void recordings_without_a_class_are_accepted_if_no_labels_are_needed(void **state)
{
    (void)state;
    static const struct dataset_limits limits = {
        .total_bytes = 1 << 20, .entries = 8, .unlabelled = true};
    struct converted flat, alone;
    struct err err = {0};
    archive.size = 0;
    put_tone("a.wav", 20);
    put_tar_end(&archive);
    sound_fails("sound=8000", ERR_FORMAT, "a.wav: lies in no directory");
    assert_ok(convert_limited("sound=8000", &limits, &flat, &err), &err);
    archive = wav;
    assert_ok(convert_limited("sound=8000", &limits, &alone, &err), &err);
    assert_int_equal(flat.info.classes, 0);
    assert_int_equal(alone.info.classes, 0);
    assert_int_equal(alone.file.size, flat.file.size);
    assert_memory_equal(alone.file.data, flat.file.data, flat.file.size);
    converted_done(&flat);
    converted_done(&alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_become_spectrograms_whose_bands_follow_the_tone),
        cmocka_unit_test(parameters_set_the_shape_and_the_floor),
        cmocka_unit_test(faults_name_the_entry_or_the_parameters),
        cmocka_unit_test(a_packed_archive_gives_the_same),
        cmocka_unit_test(recordings_without_a_class_are_accepted_if_no_labels_are_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
