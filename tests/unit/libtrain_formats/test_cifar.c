#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/formats_support.h"

static struct bytes file, archive; /* too large for a stack */

static void planes_become_interleaved_pixels(void **state)
{
    (void)state;
    struct converted converted;
    file.size = 0;
    put_cifar_record(&file, 3);
    put_cifar_record(&file, 9);
    convert_ok(&file, NULL, &converted);
    assert_int_equal(converted.info.count, 2);
    assert_int_equal(converted.info.h, 32);
    assert_int_equal(converted.info.c, 3);
    assert_int_equal(converted.info.classes, 10);
    assert_int_equal(label_of(&converted, 0), 3);
    assert_int_equal(label_of(&converted, 1), 9);
    for (size_t i = 0; i < 1024; i++) {
        for (size_t plane = 0; plane < 3; plane++) {
            assert_int_equal(inputs_of(&converted)[3072 + 3 * i + plane],
                             plane * 50 + (plane * 1024 + i) % 50);
        }
    }
    converted_done(&converted);
}

static void a_record_that_looks_like_idx_is_still_cifar(void **state)
{
    (void)state;
    struct converted converted;
    file.size = 0;
    put_cifar_record(&file, 0);
    file.data[1] = 0;
    file.data[2] = 8;
    file.data[3] = 3;
    convert_ok(&file, NULL, &converted);
    assert_int_equal(converted.info.count, 1);
    converted_done(&converted);
}

static void an_error_about_a_truncated_record_names_the_missing_bytes(void **state)
{
    (void)state;
    file.size = 0;
    put_cifar_record(&file, 3);
    put_cifar_record(&file, 4);
    file.size -= 100;
    convert_fails(&file, NULL, ERR_FORMAT, "file 1: record 1 ends 100 bytes early, at byte 6046");
}

static void a_label_beyond_nine_is_named(void **state)
{
    (void)state;
    file.size = 0;
    put_cifar_record(&file, 3);
    put_cifar_record(&file, 10);
    convert_fails(&file, NULL, ERR_FORMAT, "record 1 has label 10");
}

static void files_of_an_archive_are_joined_in_the_order_of_their_names(void **state)
{
    (void)state;
    static const char *const names[] = {"c/data_batch_2.bin", "c/data_batch_1.bin",
                                        "c/data_batch_3.bin"};
    static const uint8_t labels[] = {2, 1, 3};
    for (int compressed = 0; compressed < 2; compressed++) {
        struct converted converted;
        archive.size = 0;
        put_tar_entry(&archive, "c/", '5', "", 0);
        for (size_t i = 0; i < 3; i++) {
            file.size = 0;
            put_cifar_record(&file, labels[i]);
            put_tar_entry(&archive, names[i], '0', file.data, file.size);
        }
        put_tar_end(&archive);
        if (compressed) {
            compress_gzip(&archive);
        }
        convert_ok(&archive, NULL, &converted);
        assert_int_equal(converted.info.count, 3);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(label_of(&converted, i), i + 1);
            assert_int_equal(inputs_of(&converted)[3072 * i + 4], 75);
        }
        converted_done(&converted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planes_become_interleaved_pixels),
        cmocka_unit_test(a_record_that_looks_like_idx_is_still_cifar),
        cmocka_unit_test(an_error_about_a_truncated_record_names_the_missing_bytes),
        cmocka_unit_test(a_label_beyond_nine_is_named),
        cmocka_unit_test(files_of_an_archive_are_joined_in_the_order_of_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
