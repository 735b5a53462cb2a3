#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/formats_support.h"

#define DICTIONARY(descr, shape)                                                                   \
    "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }          \n"

static struct bytes images, labels; /* too large for a stack */

static void start(void)
{
    static const int64_t three[] = {2, 0, 65535};
    images.size = labels.size = 0;
    put_npy(&labels, DICTIONARY("<i8", "(3,)"), three, sizeof(three));
}

static void float_vectors_and_int64_labels(void **state)
{
    (void)state;
    struct converted converted;
    static const float values[] = {1, 2, 3, 4, 5, 6};
    start();
    put_npy(&images, DICTIONARY("<f4", "(3, 2)"), values, sizeof(values));
    convert_ok(&images, &labels, &converted);
    assert_int_equal(converted.info.dtype, DTYPE_F32);
    assert_int_equal(converted.info.h, 1);
    assert_int_equal(converted.info.w, 1);
    assert_int_equal(converted.info.c, 2);
    assert_int_equal(converted.info.classes, 65536);
    assert_int_equal(label_of(&converted, 2), 65535);
    assert_memory_equal(inputs_of(&converted), values, sizeof(values));
    converted_done(&converted);
}

/* The bytes of each of `count` elements turned round. */
static void put_npy_big(struct bytes *bytes, const char *dictionary, const void *data, size_t count,
                        size_t size)
{
    uint8_t turned[64];
    assert_true(count * size <= sizeof(turned));
    for (size_t i = 0; i < count * size; i++) {
        turned[i] = ((const uint8_t *)data)[i / size * size + size - 1 - i % size];
    }
    put_npy(bytes, dictionary, turned, count * size);
}

static void check_floats(const float *expected, size_t count)
{
    struct converted converted;
    convert_ok(&images, &labels, &converted);
    assert_int_equal(converted.info.dtype, DTYPE_F32);
    assert_int_equal(converted.info.inputs_bytes, count * sizeof(*expected));
    assert_memory_equal(inputs_of(&converted), expected, count * sizeof(*expected));
    converted_done(&converted);
}

static void floats_of_every_size_and_order_become_float32(void **state)
{
    (void)state;
    static const float singles[] = {1.5f, -0.0f, 3e38f, 1e-45f, -65504.0f, 0.1f};
    static const double doubles[] = {1.5, -0.0, 3e38, 1e-45, -65504.0, 0.1};
    static const uint16_t halves[] = {0x3e00, 0x8000, 0x0001, 0x03ff, 0xfbff, 0x2e66};
    static const float of_halves[] = {1.5f,      -0.0f,      0x1p-24f, 1023 * 0x1p-24f,
                                      -65504.0f, 0x1.998p-4f};
    start();
    put_npy_big(&images, DICTIONARY(">f4", "(3, 2)"), singles, 6, 4);
    check_floats(singles, 6);
    images.size = 0;
    put_npy(&images, DICTIONARY("=f4", "(3, 2)"), singles, sizeof(singles));
    check_floats(singles, 6);
    images.size = 0;
    put_npy(&images, DICTIONARY("<f8", "(3, 2)"), doubles, sizeof(doubles));
    check_floats(singles, 6);
    images.size = 0;
    put_npy_big(&images, DICTIONARY(">f8", "(3, 2)"), doubles, 6, 8);
    check_floats(singles, 6);
    images.size = 0;
    put_npy(&images, DICTIONARY("<f2", "(3, 2)"), halves, sizeof(halves));
    check_floats(of_halves, 6);
    images.size = 0;
    put_npy_big(&images, DICTIONARY(">f2", "(3, 2)"), halves, 6, 2);
    check_floats(of_halves, 6);
}

static void numbers_that_are_not_finite_are_rejected_with_their_place(void **state)
{
    (void)state;
    static const float nan_at_4[] = {1, 2, 3, 4, NAN, 6}, infinite[] = {1, -INFINITY, 3, 4, 5, 6};
    static const double large[] = {1, 2, 3, 1e39, 5, 6};
    static const uint16_t half[] = {0, 0, 0, 0, 0, 0x7c00};
    start();
    put_npy(&images, DICTIONARY("<f4", "(3, 2)"), nan_at_4, sizeof(nan_at_4));
    convert_fails(&images, &labels, ERR_INVALID,
                  "file 1: number 0 of sample 2 (both from 0) is nan as a float32");
    images.size = 0;
    put_npy(&images, DICTIONARY("<f4", "(3, 2)"), infinite, sizeof(infinite));
    convert_fails(&images, &labels, ERR_INVALID, "number 1 of sample 0 (both from 0) is -inf");
    images.size = 0;
    put_npy(&images, DICTIONARY("<f8", "(3, 2)"), large, sizeof(large));
    convert_fails(&images, &labels, ERR_INVALID, "number 1 of sample 1 (both from 0) is inf");
    images.size = 0;
    put_npy(&images, DICTIONARY("<f2", "(3, 2)"), half, sizeof(half));
    convert_fails(&images, &labels, ERR_INVALID, "number 1 of sample 2 (both from 0) is inf");
}

/* More than one buffer of them, so that the place is counted over all. */
static void many_doubles_are_converted_piece_by_piece(void **state)
{
    (void)state;
    static double values[8000]; /* 62.5 KiB: a whole test file has 64 */
    static float expected[8000];
    static const char all[] = DICTIONARY("<f8", "(2, 4000)");
    for (size_t i = 0; i < 8000; i++) {
        expected[i] = (float)(values[i] = (double)i / 7.0);
    }
    static const uint8_t two[] = {0, 1};
    images.size = labels.size = 0;
    put_npy(&images, all, values, sizeof(values));
    put_npy(&labels, DICTIONARY("|u1", "(2,)"), two, 2);
    check_floats(expected, 8000);
}

static void byte_images_with_and_without_channels(void **state)
{
    (void)state;
    struct converted converted;
    static const uint8_t pixels[72] = {7};
    start();
    put_npy(&images, DICTIONARY("|u1", "(3, 3, 4)"), pixels, 36);
    convert_ok(&images, &labels, &converted);
    assert_int_equal(converted.info.w, 4);
    assert_int_equal(converted.info.c, 1);
    converted_done(&converted);
    images.size = 0;
    put_npy(&images, "{\"shape\":(3,3,4,2),\"descr\":\"u1\",\"fortran_order\":False}", pixels, 72);
    convert_ok(&images, &labels, &converted);
    assert_int_equal(converted.info.c, 2);
    converted_done(&converted);
}

static void labels_of_four_and_of_one_byte(void **state)
{
    (void)state;
    struct converted converted;
    static const int32_t wide[] = {1, 2, 3};
    static const uint8_t narrow[] = {4, 5, 255}, pixels[3] = {0};
    start();
    put_npy(&images, DICTIONARY("|u1", "(3, 1)"), pixels, 3);
    labels.size = 0;
    put_npy(&labels, DICTIONARY("<i4", "(3,)"), wide, sizeof(wide));
    convert_ok(&images, &labels, &converted);
    assert_int_equal(label_of(&converted, 2), 3);
    converted_done(&converted);
    labels.size = 0;
    put_npy(&labels, DICTIONARY("|u1", "(3,)"), narrow, sizeof(narrow));
    convert_ok(&images, &labels, &converted);
    assert_int_equal(label_of(&converted, 2), 255);
    converted_done(&converted);
}

static void labels_of_any_integer_type(void **state)
{
    (void)state;
    struct converted converted;
    static const uint8_t pixels[3] = {0}, bools[] = {1, 0, 1};
    static const int8_t i1[] = {1, 2, 127};
    static const int16_t i2[] = {1, 2, 300};
    static const uint16_t u2[] = {1, 2, 65535};
    static const uint32_t u4[] = {1, 2, 70};
    static const uint64_t u8[] = {1, 2, 300};
    static const struct {
        const char *dictionary;
        const void *data;
        size_t size;
        bool big;
        int32_t last;
    } cases[] = {
        {DICTIONARY("|i1", "(3,)"), i1, 1, false, 127},
        {DICTIONARY("<i2", "(3,)"), i2, 2, false, 300},
        {DICTIONARY(">i2", "(3,)"), i2, 2, true, 300},
        {DICTIONARY("<u2", "(3,)"), u2, 2, false, 65535},
        {DICTIONARY(">u2", "(3,)"), u2, 2, true, 65535},
        {DICTIONARY("<u4", "(3,)"), u4, 4, false, 70},
        {DICTIONARY(">u4", "(3,)"), u4, 4, true, 70},
        {DICTIONARY("<u8", "(3,)"), u8, 8, false, 300},
        {DICTIONARY(">u8", "(3,)"), u8, 8, true, 300},
        {DICTIONARY("|b1", "(3,)"), bools, 1, false, 1},
    };
    start();
    put_npy(&images, DICTIONARY("|u1", "(3, 1)"), pixels, 3);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        labels.size = 0;
        if (cases[i].big) {
            put_npy_big(&labels, cases[i].dictionary, cases[i].data, 3, cases[i].size);
        } else {
            put_npy(&labels, cases[i].dictionary, cases[i].data, 3 * cases[i].size);
        }
        convert_ok(&images, &labels, &converted);
        assert_int_equal(label_of(&converted, 2), cases[i].last);
        assert_int_equal(converted.info.classes, cases[i].last + 1);
        converted_done(&converted);
    }
    static const int16_t negative[] = {0, -2, 1};
    static const uint64_t huge[] = {0, UINT64_MAX, 1};
    labels.size = 0;
    put_npy_big(&labels, DICTIONARY(">i2", "(3,)"), negative, 3, 2);
    convert_fails(&images, &labels, ERR_INVALID, "label -2 is not in 0 to 65535");
    labels.size = 0;
    put_npy(&labels, DICTIONARY("<u8", "(3,)"), huge, sizeof(huge));
    convert_fails(&images, &labels, ERR_INVALID, "label 9223372036854775807 is not in");
    labels.size = 0;
    put_npy(&labels, DICTIONARY("<f4", "(3,)"), u4, sizeof(u4));
    convert_fails(&images, &labels, ERR_UNSUPPORTED, "labels 1 of an integer type");
}

static void versions_2_and_3_have_a_longer_length(void **state)
{
    (void)state;
    struct converted converted;
    static const char dictionary[] = DICTIONARY("|u1", "(3, 1)");
    uint8_t head[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, sizeof(dictionary) - 1, 0, 0, 0};
    start();
    put(&images, head, sizeof(head));
    put(&images, dictionary, sizeof(dictionary) - 1);
    put_zeros(&images, 3);
    convert_ok(&images, &labels, &converted);
    assert_int_equal(converted.info.count, 3);
    converted_done(&converted);
    images.data[6] = 3;
    convert_ok(&images, &labels, &converted);
    assert_int_equal(converted.info.count, 3);
    converted_done(&converted);
    images.data[6] = 4;
    convert_fails(&images, &labels, ERR_UNSUPPORTED, "NPY version 4.0");
    images.data[6] = 1;
    images.data[7] = 1;
    convert_fails(&images, &labels, ERR_UNSUPPORTED, "NPY version 1.1");
}

static void labels_out_of_range_are_rejected(void **state)
{
    (void)state;
    static const int64_t negative[] = {0, -1, 2}, large[] = {0, 1, 65536};
    start();
    put_npy(&images, DICTIONARY("|u1", "(3, 1)"), "abc", 3);
    labels.size = 0;
    put_npy(&labels, DICTIONARY("<i8", "(3,)"), negative, sizeof(negative));
    convert_fails(&images, &labels, ERR_INVALID, "file 2: label -1 is not in 0 to 65535");
    labels.size = 0;
    put_npy(&labels, DICTIONARY("<i8", "(3,)"), large, sizeof(large));
    convert_fails(&images, &labels, ERR_INVALID, "label 65536");
}

static void an_error_about_truncation_names_the_missing_part(void **state)
{
    (void)state;
    start();
    put_npy(&images, DICTIONARY("|u1", "(3, 3, 4)"), "abcd", 4);
    convert_fails(&images, &labels, ERR_FORMAT, "file 1: the samples end 32 bytes early");
    images.size = 30;
    convert_fails(&images, &labels, ERR_FORMAT, "file 1: the NPY header ends");
    start();
    put_npy(&images, DICTIONARY("|u1", "(3, 1)"), "abc", 3);
    labels.size -= 9;
    convert_fails(&images, &labels, ERR_FORMAT, "file 2: the labels end 9 bytes early");
}

static void headers_that_are_not_the_format_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *dictionary, *part;
        int code;
    } cases[] = {
        {DICTIONARY("<f16", "(3, 2)"), "type '<f16'", ERR_UNSUPPORTED},
        {DICTIONARY("<f1", "(3, 2)"), "type '<f1'", ERR_UNSUPPORTED},
        {DICTIONARY("<c8", "(3, 2)"), "type '<c8'", ERR_UNSUPPORTED},
        {DICTIONARY("<f", "(3, 2)"), "type '<f'", ERR_UNSUPPORTED},
        {DICTIONARY("", "(3, 2)"), "type ''", ERR_UNSUPPORTED},
        {DICTIONARY("|O", "(3,)"), "type '|O'", ERR_UNSUPPORTED},
        {DICTIONARY("<U3", "(3,)"), "type '<U3'", ERR_UNSUPPORTED},
        {DICTIONARY("<i8", "(3, 2)"), "2 dimensions and type '<i8'", ERR_UNSUPPORTED},
        {DICTIONARY("<f4", "(3,)"), "1 dimensions and type '<f4'", ERR_UNSUPPORTED},
        {DICTIONARY("<f4", "()"), "0 dimensions", ERR_UNSUPPORTED},
        {DICTIONARY("<f4", "(1, 2, 3, 4, 5)"), "more than 4 dimensions", ERR_FORMAT},
        {DICTIONARY("<f4", "(3, -2)"), "expected an integer", ERR_FORMAT},
        {DICTIONARY("<f4", "(3, 99999999999999999999)"), "too large", ERR_FORMAT},
        {DICTIONARY("<f4", "(3, 4611686018427387904)"), "a sample has from 1 to", ERR_INVALID},
        {DICTIONARY("|u1", "(4611686018427387904, 4)"), "4611686018427387904 samples", ERR_LIMIT},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }",
         "fortran_order must be False", ERR_UNSUPPORTED},
        {"{'descr': '<f4', 'fortran_order': Falsy, 'shape': (3, 2), }", "expected False",
         ERR_FORMAT},
        {"{'descr': '<f4', 'shape': (3, 2), }", "are needed", ERR_FORMAT},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (3, 2), }", "'descr' occurs twice", ERR_FORMAT},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }",
         "expected a quoted text", ERR_FORMAT},
        {"{'strange': 1}", "'strange' is not a known key", ERR_FORMAT},
        {"", "expected '{'", ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start();
        put_npy(&images, cases[i].dictionary, "", 0);
        convert_fails(&images, &labels, cases[i].code, cases[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_vectors_and_int64_labels),
        cmocka_unit_test(floats_of_every_size_and_order_become_float32),
        cmocka_unit_test(numbers_that_are_not_finite_are_rejected_with_their_place),
        cmocka_unit_test(many_doubles_are_converted_piece_by_piece),
        cmocka_unit_test(labels_of_any_integer_type),
        cmocka_unit_test(byte_images_with_and_without_channels),
        cmocka_unit_test(labels_of_four_and_of_one_byte),
        cmocka_unit_test(versions_2_and_3_have_a_longer_length),
        cmocka_unit_test(labels_out_of_range_are_rejected),
        cmocka_unit_test(an_error_about_truncation_names_the_missing_part),
        cmocka_unit_test(headers_that_are_not_the_format_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
