#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/formats_support.h"

static struct bytes images, labels, archive; /* too large for a stack */

static void start(void)
{
    images.size = labels.size = archive.size = 0;
    put_idx_images(&images, 6, 4, 5);
    put_idx_labels(&labels, 6);
}

static void put_both(void)
{
    put_tar_entry(&archive, "set/train-labels", '0', labels.data, labels.size);
    put_tar_entry(&archive, "set/train-images", '0', images.data, images.size);
    put_tar_end(&archive);
}

static void images_and_labels_are_found_in_an_archive(void **state)
{
    (void)state;
    struct converted converted;
    start();
    put_both();
    convert_ok(&archive, NULL, &converted);
    assert_int_equal(converted.info.count, 6);
    assert_int_equal(inputs_of(&converted)[119], 119);
    assert_int_equal(label_of(&converted, 5), 2);
    converted_done(&converted);
}

static void gzip_is_expanded_around_and_inside_an_archive(void **state)
{
    (void)state;
    struct converted converted;
    start();
    compress_gzip(&images);
    put_both();
    compress_gzip(&archive);
    convert_ok(&archive, NULL, &converted);
    assert_int_equal(converted.info.count, 6);
    assert_int_equal(inputs_of(&converted)[119], 119);
    converted_done(&converted);
}

static void errors_name_the_entry(void **state)
{
    (void)state;
    start();
    labels.size = 0;
    put_idx_labels(&labels, 5);
    put_both();
    convert_fails(&archive, NULL, ERR_FORMAT, "set/train-labels: 5 labels for 6 samples");
    start();
    images.size -= 3;
    put_both();
    convert_fails(&archive, NULL, ERR_FORMAT, "set/train-images: the samples end 3 bytes early");
}

static void names_that_lead_out_are_rejected(void **state)
{
    (void)state;
    static const char *const names[] = {"/etc/passwd", "../x", "a/../../x", "a/..", ""};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        start();
        put_tar_entry(&archive, names[i], '0', images.data, images.size);
        put_tar_end(&archive);
        convert_fails(&archive, NULL, ERR_INVALID, "leads out of the archive");
    }
}

static void dots_within_a_name_are_fine(void **state)
{
    (void)state;
    struct converted converted;
    start();
    put_tar_entry(&archive, "./", '5', "", 0);
    put_tar_entry(&archive, "./a..b/..c", '0', images.data, images.size);
    put_tar_entry(&archive, "./labels..", '0', labels.data, labels.size);
    put_tar_end(&archive);
    convert_ok(&archive, NULL, &converted);
    converted_done(&converted);
}

static void links_and_devices_are_rejected(void **state)
{
    (void)state;
    static const char types[] = {'1', '2', '3', '4', '6', 'S'};
    for (size_t i = 0; i < sizeof(types); i++) {
        start();
        put_tar_entry(&archive, "link", types[i], "", 0);
        put_both();
        convert_fails(&archive, NULL, ERR_INVALID, "entry 'link' is not a regular file");
    }
}

static void entries_are_counted(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < 9; i++) {
        put_tar_entry(&archive, "directory/", '5', "", 0);
    }
    put_both();
    convert_fails(&archive, NULL, ERR_LIMIT, "more than 8 entries");
}

static void a_truncated_archive_is_noticed(void **state)
{
    (void)state;
    start();
    put_both();
    archive.size -= 1024 + 500;
    convert_fails(&archive, NULL, ERR_FORMAT,
                  "set/train-images: the IDX header ends 4 bytes early");
    start();
    put_both();
    archive.size -= 1024 + 512;
    convert_fails(&archive, NULL, ERR_FORMAT, "set/train-images: the content ends 136 bytes early");
    start();
    put_both();
    archive.size -= 1024;
    convert_fails(&archive, NULL, ERR_FORMAT, "file 1: the archive ends 512 bytes early");
}

static void a_corrupt_header_is_noticed(void **state)
{
    (void)state;
    start();
    put_both();
    archive.data[3] ^= 1;
    convert_fails(&archive, NULL, ERR_FORMAT, "entry 1 has a corrupt tar header");
}

static void an_empty_archive_has_no_data(void **state)
{
    (void)state;
    start();
    put_tar_entry(&archive, "set/", '5', "", 0);
    put_tar_end(&archive);
    convert_fails(&archive, NULL, ERR_FORMAT, "the archive has no files");
}

static void other_files_are_named(void **state)
{
    (void)state;
    start();
    put_tar_entry(&archive, "README", '0', "hello", 5);
    put_both();
    convert_fails(&archive, NULL, ERR_FORMAT, "README: unknown format; expected IDX");
}

static void two_sets_of_images_are_ambiguous(void **state)
{
    (void)state;
    start();
    put_tar_entry(&archive, "test-images", '0', images.data, images.size);
    put_both();
    convert_fails(&archive, NULL, ERR_FORMAT,
                  "test-images has samples, set/train-labels has labels, and more follow");
}

static void harmless_extended_headers_are_passed_over(void **state)
{
    (void)state;
    struct converted converted;
    static const char times[] = "28 mtime=1700000000.1234567\n20 comment=harmless\n";
    start();
    put_tar_entry(&archive, "pax", 'x', times, sizeof(times) - 1);
    put_both();
    convert_ok(&archive, NULL, &converted);
    converted_done(&converted);
}

/* A name of `size` characters: 'd' except one slash in the middle. */
static void make_long_name(char out[512], size_t size)
{
    memset(out, 'd', size);
    out[size / 2] = '/';
    out[size] = '\0';
}

/* A record "SIZE path=NAME\n"; its size counts its own digits. */
static size_t make_path_record(char out[600], const char *name)
{
    size_t size = strlen(name) + sizeof("100 path=\n") - 1;
    return (size_t)snprintf(out, 600, "%zu path=%s\n", size, name);
}

static void long_names_of_gnu_and_pax_replace_the_header_s(void **state)
{
    (void)state;
    char name[512], record[600], message[600];
    make_long_name(name, 200);
    (void)snprintf(message, sizeof(message), "%s: unknown format; expected IDX", name);
    start();
    put_tar_entry(&archive, "././@LongLink", 'L', name, strlen(name) + 1);
    put_tar_entry(&archive, "cut off", '0', "hello", 5);
    put_both();
    convert_fails(&archive, NULL, ERR_FORMAT, message);
    start();
    put_tar_entry(&archive, "pax", 'x', record, make_path_record(record, name));
    put_tar_entry(&archive, "cut off", '0', "hello", 5);
    put_both();
    convert_fails(&archive, NULL, ERR_FORMAT, message);
}

static void a_long_name_holds_for_one_entry(void **state)
{
    (void)state;
    char name[512];
    make_long_name(name, 200);
    start();
    put_tar_entry(&archive, "././@LongLink", 'L', name, strlen(name) + 1);
    put_tar_entry(&archive, "cut off", '5', "", 0);
    put_tar_entry(&archive, "README", '0', "hello", 5);
    put_both();
    convert_fails(&archive, NULL, ERR_FORMAT, "README: unknown format; expected IDX");
}

static void long_names_are_bounded_and_lead_nowhere(void **state)
{
    (void)state;
    static char long_name[20000];
    char record[600], name[512];
    memset(long_name, 'd', sizeof(long_name));
    start();
    put_tar_entry(&archive, "././@LongLink", 'L', long_name, 257);
    put_both();
    convert_fails(&archive, NULL, ERR_LIMIT, "a name of 257 bytes; at most 256");
    start();
    put_tar_entry(&archive, "././@LongLink", 'L', long_name, sizeof(long_name));
    put_both();
    convert_fails(&archive, NULL, ERR_LIMIT, "an extended header of 20000 bytes");
    make_long_name(name, 257);
    start();
    put_tar_entry(&archive, "pax", 'x', record, make_path_record(record, name));
    put_both();
    convert_fails(&archive, NULL, ERR_LIMIT, "a name of 257 bytes; at most 256");
    make_long_name(name, 120);
    memcpy(name, "../", 3);
    start();
    put_tar_entry(&archive, "pax", 'x', record, make_path_record(record, name));
    put_both();
    convert_fails(&archive, NULL, ERR_INVALID, "leads out of the archive");
    start();
    put_tar_entry(&archive, "pax", 'x', "14 path=ab\0cd\n", 14);
    put_both();
    convert_fails(&archive, NULL, ERR_FORMAT, "corrupt extended header");
}

static void targets_of_links_do_not_make_a_link_a_file(void **state)
{
    (void)state;
    start();
    put_tar_entry(&archive, "././@LongLink", 'K', "/etc/passwd", 12);
    put_tar_entry(&archive, "link", '2', "", 0);
    put_both();
    convert_fails(&archive, NULL, ERR_INVALID, "'link' is not a regular file");
    start();
    put_tar_entry(&archive, "pax", 'x', "24 linkpath=/etc/passwd\n", 24);
    put_tar_entry(&archive, "link", '1', "", 0);
    put_both();
    convert_fails(&archive, NULL, ERR_INVALID, "'link' is not a regular file");
}

static void extended_headers_that_change_an_entry_are_rejected(void **state)
{
    (void)state;
    start();
    put_tar_entry(&archive, "pax", 'x', "12 size=100\n", 12);
    put_both();
    convert_fails(&archive, NULL, ERR_UNSUPPORTED, "extended header with 'size'");
    start();
    put_tar_entry(&archive, "pax", 'g', "10 path=x\n", 10);
    put_both();
    convert_fails(&archive, NULL, ERR_UNSUPPORTED, "a name for all entries");
    static const char *const corrupt[] = {"99 size=100\n", "x", "3 \n4", "5 abc", "0 \n"};
    for (size_t i = 0; i < sizeof(corrupt) / sizeof(corrupt[0]); i++) {
        start();
        put_tar_entry(&archive, "pax", 'x', corrupt[i], strlen(corrupt[i]));
        put_both();
        convert_fails(&archive, NULL, ERR_FORMAT, "corrupt extended header");
    }
}

static void damage_at_the_end_of_compressed_data_is_noticed(void **state)
{
    (void)state;
    start();
    put_both();
    compress_gzip(&archive);
    archive.data[archive.size - 8] ^= 1; /* the checksum */
    convert_fails(&archive, NULL, ERR_FORMAT, "corrupt gzip data");
    start();
    put_both();
    compress_gzip(&archive);
    archive.size -= 4;
    convert_fails(&archive, NULL, ERR_FORMAT, "is truncated");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_and_labels_are_found_in_an_archive),
        cmocka_unit_test(gzip_is_expanded_around_and_inside_an_archive),
        cmocka_unit_test(errors_name_the_entry),
        cmocka_unit_test(names_that_lead_out_are_rejected),
        cmocka_unit_test(dots_within_a_name_are_fine),
        cmocka_unit_test(links_and_devices_are_rejected),
        cmocka_unit_test(long_names_of_gnu_and_pax_replace_the_header_s),
        cmocka_unit_test(a_long_name_holds_for_one_entry),
        cmocka_unit_test(long_names_are_bounded_and_lead_nowhere),
        cmocka_unit_test(targets_of_links_do_not_make_a_link_a_file),
        cmocka_unit_test(damage_at_the_end_of_compressed_data_is_noticed),
        cmocka_unit_test(entries_are_counted),
        cmocka_unit_test(a_truncated_archive_is_noticed),
        cmocka_unit_test(a_corrupt_header_is_noticed),
        cmocka_unit_test(an_empty_archive_has_no_data),
        cmocka_unit_test(other_files_are_named),
        cmocka_unit_test(two_sets_of_images_are_ambiguous),
        cmocka_unit_test(harmless_extended_headers_are_passed_over),
        cmocka_unit_test(extended_headers_that_change_an_entry_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
