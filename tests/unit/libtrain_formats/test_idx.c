#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/formats_support.h"

static struct bytes images, labels; /* too large for a stack */

static void start(uint32_t image_count, uint32_t label_count)
{
    images.size = labels.size = 0;
    put_idx_images(&images, image_count, 4, 5);
    put_idx_labels(&labels, label_count);
}

static void check_pair(const struct converted *converted)
{
    assert_int_equal(converted->info.count, 7);
    assert_int_equal(converted->info.h, 4);
    assert_int_equal(converted->info.w, 5);
    assert_int_equal(converted->info.c, 1);
    assert_int_equal(converted->info.dtype, DTYPE_U8);
    assert_int_equal(converted->info.classes, 3);
    assert_int_equal(converted->info.inputs_offset % 64, 0);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(label_of(converted, i), i % 3);
    }
    for (size_t i = 0; i < 140; i++) {
        assert_int_equal(inputs_of(converted)[i], i);
    }
}

static void images_and_labels_come_in_either_order(void **state)
{
    (void)state;
    struct converted converted;
    start(7, 7);
    convert_ok(&images, &labels, &converted);
    check_pair(&converted);
    converted_done(&converted);
    convert_ok(&labels, &images, &converted);
    check_pair(&converted);
    converted_done(&converted);
}

static void gzip_is_expanded(void **state)
{
    (void)state;
    struct converted converted;
    start(7, 7);
    compress_gzip(&images);
    compress_gzip(&labels);
    convert_ok(&images, &labels, &converted);
    check_pair(&converted);
    converted_done(&converted);
}

static void gzip_of_several_members_is_one_file(void **state)
{
    (void)state;
    static struct bytes first, second;
    struct converted converted;
    start(7, 7);
    first.size = second.size = 0;
    put(&first, images.data, 30);
    put(&second, images.data + 30, images.size - 30);
    compress_gzip(&first);
    compress_gzip(&second);
    put(&first, second.data, second.size);
    convert_ok(&first, &labels, &converted);
    check_pair(&converted);
    converted_done(&converted);
}

static void four_dimensions_have_channels(void **state)
{
    (void)state;
    struct converted converted;
    static const uint32_t dim[] = {2, 3, 4, 3};
    start(1, 2);
    images.size = 0;
    put_idx_header(&images, dim, 4);
    put_zeros(&images, 72);
    convert_ok(&images, &labels, &converted);
    assert_int_equal(converted.info.h, 3);
    assert_int_equal(converted.info.c, 3);
    converted_done(&converted);
}

static void a_count_that_differs_names_both(void **state)
{
    (void)state;
    start(7, 6);
    convert_fails(&images, &labels, ERR_FORMAT, "file 2: 6 labels for 7 samples");
}

static void an_error_about_a_truncated_file_names_size_and_place(void **state)
{
    (void)state;
    start(7, 7);
    images.size -= 9;
    convert_fails(&images, &labels, ERR_FORMAT,
                  "file 1: the samples end 9 bytes early, at byte 147");
    start(7, 7);
    labels.size -= 2;
    convert_fails(&images, &labels, ERR_FORMAT, "file 2: the labels end 2 bytes early, at byte 13");
    start(7, 7);
    images.size = 10;
    convert_fails(&images, &labels, ERR_FORMAT, "file 1: the IDX header ends 6 bytes early");
    start(7, 7);
    images.size = 0;
    convert_fails(&images, &labels, ERR_FORMAT, "file 1: is empty");
}

static void truncated_gzip_has_an_error_of_its_own(void **state)
{
    (void)state;
    start(7, 7);
    compress_gzip(&images);
    images.size -= 40;
    convert_fails(&images, &labels, ERR_FORMAT, "(the file is truncated)");
    start(7, 7);
    compress_gzip(&images);
    images.size -= 4; /* the trailer */
    convert_fails(&images, &labels, ERR_FORMAT, "file 1: is truncated");
    start(7, 7);
    compress_gzip(&images);
    images.data[images.size - 6] ^= 1; /* the checksum */
    convert_fails(&images, &labels, ERR_FORMAT, "corrupt gzip data");
}

static void bytes_after_the_data_are_rejected(void **state)
{
    (void)state;
    start(7, 7);
    put_zeros(&labels, 1);
    convert_fails(&images, &labels, ERR_FORMAT,
                  "file 2: has more bytes than its header says, from byte 15 on");
}

static void huge_dimensions_are_rejected_without_reading(void **state)
{
    (void)state;
    static const uint32_t wide[] = {1, UINT32_MAX, UINT32_MAX}, many[] = {UINT32_MAX, 28, 28};
    static const uint32_t none[] = {4, 0, 28}, labels_dim[] = {UINT32_MAX};
    start(1, 1);
    images.size = 0;
    put_idx_header(&images, wide, 3);
    convert_fails(&images, &labels, ERR_INVALID, "a sample has from 1 to");
    images.size = 0;
    put_idx_header(&images, none, 3);
    convert_fails(&images, &labels, ERR_INVALID, "a sample has from 1 to");
    images.size = 0;
    put_idx_header(&images, many, 3);
    convert_fails(&images, &labels, ERR_LIMIT, "4294967295 samples");
    start(1, 1);
    labels.size = 0;
    put_idx_header(&labels, labels_dim, 1);
    convert_fails(&images, &labels, ERR_LIMIT, "4294967295 labels");
}

static void other_types_and_ranks_are_named(void **state)
{
    (void)state;
    static const uint32_t two[] = {7, 20};
    start(7, 7);
    images.data[2] = 0x0D;
    convert_fails(&images, &labels, ERR_UNSUPPORTED, "type 0x0d");
    images.size = 0;
    put_idx_header(&images, two, 2);
    convert_fails(&images, &labels, ERR_FORMAT, "2 dimensions");
}

static void no_samples_are_no_data_set(void **state)
{
    (void)state;
    start(0, 0);
    convert_fails(&images, &labels, ERR_FORMAT, "there are no samples");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_and_labels_come_in_either_order),
        cmocka_unit_test(gzip_is_expanded),
        cmocka_unit_test(gzip_of_several_members_is_one_file),
        cmocka_unit_test(four_dimensions_have_channels),
        cmocka_unit_test(a_count_that_differs_names_both),
        cmocka_unit_test(an_error_about_a_truncated_file_names_size_and_place),
        cmocka_unit_test(truncated_gzip_has_an_error_of_its_own),
        cmocka_unit_test(bytes_after_the_data_are_rejected),
        cmocka_unit_test(huge_dimensions_are_rejected_without_reading),
        cmocka_unit_test(other_types_and_ranks_are_named),
        cmocka_unit_test(no_samples_are_no_data_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
