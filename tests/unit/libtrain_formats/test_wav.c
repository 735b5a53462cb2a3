#include "libtrain/formats/wav.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/formats_support.h"

#define RATE 8000
#define FORMAT_CHUNK_AT 12 /* of the files of put_wav */
#define FORMAT_AT 20
#define DATA_CHUNK_AT 36

static struct bytes file; /* too large for a stack */

static int read_wave(double *wave, size_t count, struct err *err)
{
    struct stream stream;
    int fd = memory_file(&file);
    assert_ok(stream_open_file(&stream, fd, "a.wav", err), err);
    int rc = wav_read(&stream, RATE, wave, count, err);
    file_close(&fd);
    return rc;
}

static void wave_fails(int code, const char *part)
{
    double wave[8];
    struct err err = {0};
    assert_int_equal(read_wave(wave, 8, &err), code);
    assert_holds(err.text, "a.wav: ");
    assert_holds(err.text, part);
}

static void check_wave(const double *expected, size_t count)
{
    double wave[8];
    struct err err = {0};
    assert_ok(read_wave(wave, count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        assert_true(wave[i] == expected[i]);
    }
}

static const int16_t plain[] = {0, 16384, -32768, 32767};

static void start(void)
{
    file.size = 0;
    put_wav(&file, 1, 1, RATE, 16, plain, sizeof(plain));
}

static void set(size_t at, uint32_t value, size_t size)
{
    memcpy(file.data + at, &value, size);
}

static void integers_of_every_width_become_numbers_within_1(void **state)
{
    (void)state;
    static const uint8_t narrow[] = {128, 192, 0, 255};
    static const uint8_t wide[] = {0, 0, 0, 0, 0, 0x40, 0, 0, 0x80, 0xff, 0xff, 0x7f};
    static const int32_t widest[] = {0, 1 << 30, INT32_MIN, INT32_MAX};
    static const double of_8[] = {0, 0.5, -1, 127.0 / 128}, of_16[] = {0, 0.5, -1, 32767.0 / 32768};
    static const double of_24[] = {0, 0.5, -1, 8388607.0 / 8388608},
                        of_32[] = {0, 0.5, -1, 2147483647.0 / 2147483648};
    file.size = 0;
    put_wav(&file, 1, 1, RATE, 8, narrow, sizeof(narrow));
    check_wave(of_8, 4);
    start();
    check_wave(of_16, 4);
    file.size = 0;
    put_wav(&file, 1, 1, RATE, 24, wide, sizeof(wide));
    check_wave(of_24, 4);
    file.size = 0;
    put_wav(&file, 1, 1, RATE, 32, widest, sizeof(widest));
    check_wave(of_32, 4);
}

static void floats_are_taken_as_they_are(void **state)
{
    (void)state;
    static const float singles[] = {0, 0.5F, -1.25F, 0.1F};
    static const double doubles[] = {0, 0.5, -1.25, 0.1},
                        of_singles[] = {0, 0.5, -1.25, (double)0.1F};
    file.size = 0;
    put_wav(&file, 3, 1, RATE, 32, singles, sizeof(singles));
    check_wave(of_singles, 4);
    file.size = 0;
    put_wav(&file, 3, 1, RATE, 64, doubles, sizeof(doubles));
    check_wave(doubles, 4);
}

static void channels_are_averaged(void **state)
{
    (void)state;
    static const int16_t stereo[] = {16384, -16384, 16384, 0, -32768, -32768};
    static const double expected[] = {0, 0.25, -1};
    file.size = 0;
    put_wav(&file, 1, 2, RATE, 16, stereo, sizeof(stereo));
    check_wave(expected, 3);
}

static void short_files_end_in_silence_and_long_ones_are_truncated(void **state)
{
    (void)state;
    static const double longer[] = {0, 0.5, -1, 32767.0 / 32768, 0, 0, 0, 0};
    start();
    check_wave(longer, 8);
    check_wave(longer, 2);
    /* Truncated data is read anyway. */
    file.size--;
    wave_fails(ERR_FORMAT, "has 51 bytes, its RIFF header says 52");
}

static void other_chunks_and_long_formats_are_read_over(void **state)
{
    (void)state;
    static const double expected[] = {0, 0.5, -1, 32767.0 / 32768};
    static const uint8_t extensible[] = {'f',  'm',  't', ' ', 42,   0,    0, 0, 0xfe, 0xff, 1,  0,
                                         0x40, 0x1f, 0,   0,   0x80, 0x3e, 0, 0, 2,    0,    16, 0,
                                         24,   0,    16,  0,   0,    0,    0, 0, 1,    0};
    start();
    struct bytes *whole = &file;
    static struct bytes chunked;
    chunked.size = 0;
    put(&chunked, whole->data, FORMAT_CHUNK_AT);
    put(&chunked, "LIST\3\0\0\0abc", 11); /* an odd one, and its fill byte */
    put_zeros(&chunked, 1);
    put(&chunked, extensible, sizeof(extensible));
    put_zeros(&chunked, 8 + 42 - sizeof(extensible));
    put(&chunked, whole->data + DATA_CHUNK_AT, whole->size - DATA_CHUNK_AT);
    put(&chunked, "odd \1\0\0\0x", 9); /* the last one's fill byte may be missing */
    file = chunked;
    set(4, (uint32_t)file.size - 8, 4);
    check_wave(expected, 4);
}

static void wrong_sizes_are_rejected(void **state)
{
    (void)state;
    start();
    set(4, 0xffffffff, 4);
    wave_fails(ERR_FORMAT, "has 52 bytes, its RIFF header says 4294967303");
    set(4, 0, 4);
    wave_fails(ERR_FORMAT, "its RIFF header says 8 bytes");
    set(4, 43, 4);
    wave_fails(ERR_FORMAT, "a chunk of 8 bytes, where the RIFF header leaves 7");
    set(4, 40, 4);
    wave_fails(ERR_FORMAT, "a chunk of 8 bytes, where the RIFF header leaves 4");
    set(4, 30, 4);
    wave_fails(ERR_FORMAT, "2 bytes after the last chunk");
    start();
    put_zeros(&file, 2);
    wave_fails(ERR_FORMAT, "has more bytes than its header says, from byte 52");
    start();
    set(DATA_CHUNK_AT + 4, 0xffffffff, 4);
    wave_fails(ERR_FORMAT, "a chunk of 4294967295 bytes, where the RIFF header leaves 8");
    start();
    set(DATA_CHUNK_AT + 4, 0, 4);
    wave_fails(ERR_INVALID, "its 'data' chunk has 0 bytes, which is no sample of 2");
    start();
    set(DATA_CHUNK_AT + 4, 7, 4);
    wave_fails(ERR_FORMAT, "7 bytes, which is no multiple of 2");
    start();
    set(FORMAT_AT - 4, 14, 4);
    wave_fails(ERR_FORMAT, "a 'fmt ' chunk of less than 16 bytes");
}

static void chunks_are_all_there_and_in_order(void **state)
{
    (void)state;
    static struct bytes other;
    start();
    set(4, 28, 4);
    file.size = 36;
    wave_fails(ERR_FORMAT, "has no 'data' chunk");
    start();
    memcpy(file.data + FORMAT_CHUNK_AT, "FMT ", 4);
    wave_fails(ERR_FORMAT, "a 'data' chunk without a 'fmt ' chunk before it");
    start();
    other = file;
    put(&file, other.data + DATA_CHUNK_AT, 16);
    set(4, (uint32_t)file.size - 8, 4);
    wave_fails(ERR_FORMAT, "a 'data' chunk after another");
    start();
    put(&file, other.data + FORMAT_CHUNK_AT, 24);
    set(4, (uint32_t)file.size - 8, 4);
    wave_fails(ERR_FORMAT, "a second 'fmt ' chunk");
    file.size = 8;
    wave_fails(ERR_FORMAT, "the WAV header ends 4 bytes early");
    start();
    file.data[0] = 'r';
    wave_fails(ERR_FORMAT, "is not a WAV file");
    start();
    file.data[8] = 'w';
    wave_fails(ERR_FORMAT, "is not a WAV file");
}

static void kinds_that_are_not_read_are_named(void **state)
{
    (void)state;
    start();
    set(FORMAT_AT + 4, 16000, 4);
    wave_fails(ERR_UNSUPPORTED, "16000 samples a second, the data set has 8000; convert it first");
    set(FORMAT_AT + 4, 0xffffffff, 4);
    wave_fails(ERR_UNSUPPORTED, "4294967295 samples a second");
    start();
    set(FORMAT_AT, 2, 2);
    wave_fails(ERR_UNSUPPORTED, "WAV format 0x0002 of 16 bits");
    set(FORMAT_AT, 0xfffe, 2);
    wave_fails(ERR_UNSUPPORTED, "WAV format 0x0000 of 16 bits");
    set(FORMAT_AT, 1, 2);
    set(FORMAT_AT + 14, 12, 2);
    wave_fails(ERR_UNSUPPORTED, "of 12 bits");
    start();
    set(FORMAT_AT + 2, 0, 2);
    wave_fails(ERR_UNSUPPORTED, "0 channels; from 1 to 8 are read");
    set(FORMAT_AT + 2, 9, 2);
    wave_fails(ERR_UNSUPPORTED, "9 channels");
    set(FORMAT_AT + 2, 2, 2);
    wave_fails(ERR_FORMAT, "2 channels of 16 bits, but 2 bytes a sample");
}

static void floats_outside_the_range_of_sound_are_rejected(void **state)
{
    (void)state;
    static const float nan_at_1[] = {0, NAN}, infinite[] = {-INFINITY, 0},
                       integers[] = {0, 0, 12000};
    static const double large[] = {0, 1e300};
    file.size = 0;
    put_wav(&file, 3, 1, RATE, 32, nan_at_1, sizeof(nan_at_1));
    wave_fails(ERR_INVALID, "sample 1 is nan; floats are from -1 to 1");
    file.size = 0;
    put_wav(&file, 3, 1, RATE, 32, infinite, sizeof(infinite));
    wave_fails(ERR_INVALID, "sample 0 is -inf");
    file.size = 0;
    put_wav(&file, 3, 1, RATE, 32, integers, sizeof(integers));
    wave_fails(ERR_INVALID, "sample 2 is 12000");
    file.size = 0;
    put_wav(&file, 3, 1, RATE, 64, large, sizeof(large));
    wave_fails(ERR_INVALID, "sample 1 is 1e+300");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_of_every_width_become_numbers_within_1),
        cmocka_unit_test(floats_are_taken_as_they_are),
        cmocka_unit_test(channels_are_averaged),
        cmocka_unit_test(short_files_end_in_silence_and_long_ones_are_truncated),
        cmocka_unit_test(other_chunks_and_long_formats_are_read_over),
        cmocka_unit_test(wrong_sizes_are_rejected),
        cmocka_unit_test(chunks_are_all_there_and_in_order),
        cmocka_unit_test(kinds_that_are_not_read_are_named),
        cmocka_unit_test(floats_outside_the_range_of_sound_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
