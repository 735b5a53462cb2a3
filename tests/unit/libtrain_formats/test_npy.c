
#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/formats_support.h"

#define DICTIONARY(descr, shape) "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }          \n"

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

static void version_2_has_a_longer_length(void **state)
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
    convert_fails(&images, &labels, ERR_UNSUPPORTED, "NPY version 3.0");
}

static void labels_out_of_range_are_refused(void **state)
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

static void truncation_says_what_is_missing(void **state)
{
    (void)state;
    start();
    put_npy(&images, DICTIONARY("|u1", "(3, 3, 4)"), "abcd", 4);
    convert_fails(&images, &labels, ERR_FORMAT, "file 1: the images end 32 bytes early");
    images.size = 30;
    convert_fails(&images, &labels, ERR_FORMAT, "file 1: the NPY header ends");
    start();
    put_npy(&images, DICTIONARY("|u1", "(3, 1)"), "abc", 3);
    labels.size -= 9;
    convert_fails(&images, &labels, ERR_FORMAT, "file 2: the labels end 9 bytes early");
}

static void headers_that_are_not_the_format_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *dictionary, *part;
        int code;
    } cases[] = {
        {DICTIONARY(">f4", "(3, 2)"), "type '>f4'", ERR_UNSUPPORTED},
        {DICTIONARY("<f8", "(3, 2)"), "type '<f8'", ERR_UNSUPPORTED},
        {DICTIONARY("<f4", "(3,)"), "1 dimensions and type '<f4'", ERR_UNSUPPORTED},
        {DICTIONARY("<f4", "()"), "0 dimensions", ERR_UNSUPPORTED},
        {DICTIONARY("<f4", "(1, 2, 3, 4, 5)"), "more than 4 dimensions", ERR_FORMAT},
        {DICTIONARY("<f4", "(3, -2)"), "expected an integer", ERR_FORMAT},
        {DICTIONARY("<f4", "(3, 99999999999999999999)"), "too large", ERR_FORMAT},
        {DICTIONARY("<f4", "(3, 4611686018427387904)"), "a sample has from 1 to", ERR_INVALID},
        {DICTIONARY("|u1", "(4611686018427387904, 4)"), "4611686018427387904 images", ERR_LIMIT},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", "fortran_order must be False", ERR_UNSUPPORTED},
        {"{'descr': '<f4', 'fortran_order': Falsy, 'shape': (3, 2), }", "expected False", ERR_FORMAT},
        {"{'descr': '<f4', 'shape': (3, 2), }", "are needed", ERR_FORMAT},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (3, 2), }", "'descr' is there twice", ERR_FORMAT},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", "expected a quoted text", ERR_FORMAT},
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
        cmocka_unit_test(byte_images_with_and_without_channels),
        cmocka_unit_test(labels_of_four_and_of_one_byte),
        cmocka_unit_test(version_2_has_a_longer_length),
        cmocka_unit_test(labels_out_of_range_are_refused),
        cmocka_unit_test(truncation_says_what_is_missing),
        cmocka_unit_test(headers_that_are_not_the_format_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
