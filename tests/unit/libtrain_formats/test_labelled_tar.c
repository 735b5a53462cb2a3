#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "libtrain/formats/labelled_tar.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/formats_support.h"

static struct bytes archive; /* too large for a stack */

static int append(void *arg, const void *data, size_t size, struct err *err)
{
    return buf_append(arg, data, size, err);
}

/* A sample is the one byte of its file. */
static int read_byte(void *arg, struct stream *stream, void *sample, struct err *err)
{
    (void)arg;
    int rc = stream_read_all(stream, sample, 1, "the file ends", err);
    return rc ? rc : stream_finish(stream, err);
}

static int convert_archive(enum dataset_label label, uint64_t limit, struct converted *out,
                           struct err *err)
{
    static const struct labelled_samples samples = {
        .h = 1, .w = 1, .c = 1, .dtype = DTYPE_U8, .read = read_byte};
    const struct dataset_limits limits = {.total_bytes = limit, .entries = 100};
    int fd = memory_file(&archive);
    buf_init(&out->file, 1 << 20);
    const struct files files = {.fd = &fd, .count = 1};
    int rc =
        labelled_tar_convert(&files, label, &samples, &limits, append, &out->file, &out->info, err);
    file_close(&fd);
    return rc;
}

static void archive_fails(enum dataset_label label, uint64_t limit, int code, const char *part)
{
    struct converted converted;
    struct err err = {0};
    assert_int_equal(convert_archive(label, limit, &converted, &err), code);
    assert_holds(err.text, part);
    converted_done(&converted);
}

/* An archive of the files, each of which holds its number. */
static void put_files(const char *const *name, size_t count)
{
    archive.size = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t number = (uint8_t)i;
        put_tar_entry(&archive, name[i], '0', &number, 1);
    }
    put_tar_end(&archive);
}

static void check_labels(enum dataset_label label, const int32_t *expected, size_t count,
                         uint32_t classes)
{
    struct converted converted;
    struct err err = {0};
    assert_ok(convert_archive(label, 1 << 20, &converted, &err), &err);
    assert_int_equal(converted.info.count, count);
    assert_int_equal(converted.info.classes, classes);
    assert_int_equal(converted.info.dtype, DTYPE_U8);
    assert_int_equal(converted.file.size, converted.info.total_bytes);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(label_of(&converted, i), expected[i]);
        assert_int_equal(inputs_of(&converted)[i], i);
    }
    converted_done(&converted);
}

static void the_sorted_names_of_directories_number_the_classes(void **state)
{
    (void)state;
    static const char *const names[] = {"set/yes/1.wav", "./set/no/1.wav", "set/yes/2.wav", "off/1",
                                        "a/b/yes.d/3",   "noo/x",          "set/no/2.wav"};
    static const int32_t expected[] = {3, 0, 3, 2, 4, 1, 0};
    put_files(names, 7);
    check_labels(DATASET_LABEL_DIRECTORY, expected, 7, 5);
    compress_gzip(&archive);
    check_labels(DATASET_LABEL_DIRECTORY, expected, 7, 5);
}

static void the_start_of_a_name_can_be_the_class(void **state)
{
    (void)state;
    static const char *const names[] = {"7_jackson_32.wav", "rec/0_theo_1.wav", "rec/7_theo_1.wav",
                                        "10_a"};
    static const int32_t expected[] = {2, 0, 2, 1};
    put_files(names, 4);
    check_labels(DATASET_LABEL_PREFIX, expected, 4, 3);
}

static void names_are_compared_as_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"caf\xe9/1", "caf\xe8/1", "caf\xc3\xa9/1",
                                        "caf\x01/1", "caf?/1",    "cafe/1"};
    static const int32_t expected[] = {5, 4, 3, 0, 1, 2};
    static const char *const two[] = {"x/1", "\xe9_\n_x"};
    put_files(names, 6);
    check_labels(DATASET_LABEL_DIRECTORY, expected, 6, 6);
    static const char kept[] = "[\\\"caf%01\\\",\\\"caf?\\\",\\\"cafe\\\",\\\"caf\xc3\xa9\\\","
                               "\\\"caf%E8\\\",\\\"caf%E9\\\"]";
    struct converted converted;
    struct err err = {0};
    assert_ok(convert_archive(DATASET_LABEL_DIRECTORY, 1 << 20, &converted, &err), &err);
    assert_non_null(memmem(converted.file.data, converted.file.size, kept, strlen(kept)));
    converted_done(&converted);
    put_files(two, 2);
    archive_fails(DATASET_LABEL_DIRECTORY, 1 << 20, ERR_FORMAT, "?_?_x: lies in no directory");
}

static void many_classes_keep_their_numbers_in_any_order(void **state)
{
    (void)state;
    static char name[60][16];
    static const char *names[60];
    static int32_t expected[60];
    for (int i = 0; i < 60; i++) {
        expected[i] = i * 37 % 60;
        (void)snprintf(name[i], sizeof(name[i]), "c%02d/f", expected[i]);
        names[i] = name[i];
    }
    put_files(names, 60);
    check_labels(DATASET_LABEL_DIRECTORY, expected, 60, 60);
}

static void hidden_files_and_directories_are_passed_over(void **state)
{
    (void)state;
    static const uint8_t number[] = {0, 1};
    static const int32_t expected[] = {1, 0};
    archive.size = 0;
    put_tar_entry(&archive, "b/", '5', "", 0);
    put_tar_entry(&archive, "b/._1.wav", '0', "junk", 4);
    put_tar_entry(&archive, "b/1.wav", '0', number, 1);
    put_tar_entry(&archive, ".DS_Store", '0', "junk", 4);
    put_tar_entry(&archive, "a/1.wav", '0', number + 1, 1);
    put_tar_end(&archive);
    check_labels(DATASET_LABEL_DIRECTORY, expected, 2, 2);
}

static void files_without_a_class_are_rejected_by_name(void **state)
{
    (void)state;
    static const char *const flat[] = {"yes/1.wav", "README.md"};
    static const char *const dot[] = {"yes/1.wav", "./2.wav"};
    static const char *const bare[] = {"7_a.wav", "rec/a.wav"};
    static const char *const empty[] = {"_a.wav"};
    put_files(flat, 2);
    archive_fails(DATASET_LABEL_DIRECTORY, 1 << 20, ERR_FORMAT, "README.md: lies in no directory");
    put_files(dot, 2);
    archive_fails(DATASET_LABEL_DIRECTORY, 1 << 20, ERR_FORMAT, "./2.wav: lies in no directory");
    put_files(bare, 2);
    archive_fails(DATASET_LABEL_PREFIX, 1 << 20, ERR_FORMAT,
                  "rec/a.wav: its name has no class before a '_'");
    put_files(empty, 1);
    archive_fails(DATASET_LABEL_PREFIX, 1 << 20, ERR_FORMAT, "_a.wav: its name has no class");
}

static void archives_without_samples_are_rejected(void **state)
{
    (void)state;
    static const char *const names[] = {"a/1", "b/1"};
    archive.size = 0;
    put(&archive, "RIFF", 4);
    archive_fails(DATASET_LABEL_DIRECTORY, 1 << 20, ERR_FORMAT, "file 1: is not a tar");
    archive.size = 0;
    put(&archive, "PK\3\4....", 8);
    archive_fails(DATASET_LABEL_DIRECTORY, 1 << 20, ERR_FORMAT,
                  "file 1: is a zip (as .npz is); send a tar or tar.gz");
    archive.size = 0;
    put_tar_entry(&archive, "b/", '5', "", 0);
    put_tar_end(&archive);
    archive_fails(DATASET_LABEL_DIRECTORY, 1 << 20, ERR_FORMAT, "the archive has no files");
    put_files(names, 2);
    archive_fails(DATASET_LABEL_DIRECTORY, 64, ERR_LIMIT, "at most 64 are allowed");
    archive.size = 0;
    put_tar_entry(&archive, "a/1", '0', "ab", 2);
    put_tar_end(&archive);
    archive_fails(DATASET_LABEL_DIRECTORY, 1 << 20, ERR_FORMAT, "a/1: has more bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sorted_names_of_directories_number_the_classes),
        cmocka_unit_test(the_start_of_a_name_can_be_the_class),
        cmocka_unit_test(names_are_compared_as_bytes),
        cmocka_unit_test(many_classes_keep_their_numbers_in_any_order),
        cmocka_unit_test(hidden_files_and_directories_are_passed_over),
        cmocka_unit_test(files_without_a_class_are_rejected_by_name),
        cmocka_unit_test(archives_without_samples_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
