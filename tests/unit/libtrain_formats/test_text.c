#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/formats_support.h"

static struct bytes text, archive; /* too large for a stack */

static int append(void *arg, const void *data, size_t size, struct err *err)
{
    return buf_append(arg, data, size, err);
}

static int convert_text(const struct bytes *content, uint32_t positions, struct converted *out,
                        struct err *err)
{
    static const struct dataset_limits limits = {.total_bytes = 1 << 18, .entries = 8};
    int fd = memory_file(content);
    buf_init(&out->file, 1 << 20);
    const struct reading reading = {.kind = READING_TEXT, .text = positions};
    int rc = dataset_convert(&fd, 1, &reading, &limits, append, &out->file, &out->info, err);
    file_close(&fd);
    return rc;
}

static void text_fails(const struct bytes *content, uint32_t positions, int code, const char *part)
{
    struct converted converted;
    struct err err = {0};
    assert_int_equal(convert_text(content, positions, &converted, &err), code);
    assert_holds(err.text, part);
    converted_done(&converted);
}

static void put_text(size_t size)
{
    text.size = 0;
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)(i * 7 + i / 256);
        put(&text, &byte, 1);
    }
}

static void check_text(const struct bytes *content, uint32_t positions, uint64_t count)
{
    struct converted converted;
    struct err err = {0};
    assert_ok(convert_text(content, positions, &converted, &err), &err);
    const struct dataset_info *info = &converted.info;
    assert_int_equal(info->count, count);
    assert_int_equal(info->h, positions);
    assert_int_equal(info->w * info->c, 1);
    assert_int_equal(info->dtype, DTYPE_U8);
    assert_int_equal(info->classes, 256);
    assert_int_equal(info->positions, positions);
    assert_int_equal(info->labels_bytes, 4 * count * positions);
    assert_int_equal(converted.file.size, info->total_bytes);
    assert_memory_equal(inputs_of(&converted), text.data, (size_t)count * positions);
    for (size_t i = 0; i < count * positions; i++) {
        assert_int_equal(label_of(&converted, i), text.data[i + 1]);
    }
    int fd = memfd_create("result", MFD_CLOEXEC);
    struct dataset_info again;
    assert_ok(file_write_at(fd, converted.file.data, converted.file.size, 0, &err), &err);
    assert_ok(dataset_read_info(fd, &again, &err), &err);
    assert_int_equal(again.positions, positions);
    assert_int_equal(again.count, count);
    /* The one form of a text is accepted again unchanged, except the classes, which are those of
     * its labels. */
    struct converted twice;
    static const struct dataset_limits limits = {.total_bytes = 1 << 20, .entries = 8};
    buf_init(&twice.file, 1 << 20);
    assert_ok(
        dataset_convert(&fd, 1, &reading_default, &limits, append, &twice.file, &twice.info, &err),
        &err);
    assert_int_equal(twice.file.size, converted.file.size);
    assert_memory_equal(twice.file.data, converted.file.data, twice.file.size);
    assert_int_equal(twice.info.positions, positions);
    file_close(&fd);
    converted_done(&twice);
    converted_done(&converted);
}

static void a_text_is_split_into_samples_whose_labels_are_the_next_bytes(void **state)
{
    (void)state;
    put_text(1000);
    check_text(&text, 64, 15);
    check_text(&text, 999, 1);
    check_text(&text, 333, 3);
    check_text(&text, 1, 999);
    put_text(2);
    check_text(&text, 1, 1);
    put_text(40001);
    check_text(&text, 16, 2500);
}

static void a_packed_text_is_unpacked(void **state)
{
    (void)state;
    put_text(1000);
    archive = text;
    compress_gzip(&archive);
    check_text(&archive, 64, 15);
    archive.size = 0;
    put_tar_entry(&archive, "a.txt", '0', text.data, text.size);
    put_tar_end(&archive);
    check_text(&archive, 64, 15);
    put_text(1000);
    archive.size = 0;
    put_tar_entry(&archive, "a.txt", '0', text.data, text.size);
    put_tar_entry(&archive, "b.txt", '0', text.data, text.size);
    put_tar_end(&archive);
    text_fails(&archive, 64, ERR_FORMAT, "b.txt: a second file; a text is one");
    archive.size = 0;
    put_tar_entry(&archive, "folder/", '5', "", 0);
    put_tar_end(&archive);
    text_fails(&archive, 64, ERR_FORMAT, "the archive has no files");
    archive = text;
    compress_gzip(&archive);
    archive.size -= 20;
    text_fails(&archive, 64, ERR_FORMAT, "file 1");
}

static void a_too_short_or_too_large_text_is_rejected(void **state)
{
    (void)state;
    put_text(64);
    text_fails(&text, 64, ERR_FORMAT,
               "64 bytes of text; a sample of 64 and the byte after it need 65");
    text.size = 0;
    text_fails(&text, 1, ERR_FORMAT, "0 bytes of text");
    put_text(60000);
    text_fails(&text, 16, ERR_LIMIT, "at most 262144 are allowed");
}

static void check_end(const struct bytes *content, size_t capacity, size_t size)
{
    static const struct dataset_limits limits = {.total_bytes = 1 << 18, .entries = 8};
    uint8_t end[300] = {0};
    size_t got = 0;
    struct err err = {0};
    assert_in_range(capacity, 1, sizeof(end));
    int fd = memory_file(content);
    assert_ok(dataset_text_end(fd, &limits, end, capacity, &got, &err), &err);
    assert_int_equal(got, size);
    assert_memory_equal(end, text.data + text.size - size, size);
    file_close(&fd);
}

static void the_end_of_a_text_is_its_last_bytes(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {{0, 5, 0},         {1, 5, 1},          {5, 5, 5},
                                      {6, 5, 5},         {100, 64, 64},      {100, 128, 100},
                                      {20000, 300, 300}, {16384 + 7, 64, 64}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        put_text(sizes[i][0]);
        check_end(&text, sizes[i][1], sizes[i][2]);
    }
    archive = text;
    compress_gzip(&archive);
    check_end(&archive, 64, 64);

    static const struct dataset_limits limits = {.total_bytes = 1 << 18, .entries = 8};
    uint8_t end[4];
    size_t size = 0;
    struct err err = {0};
    archive.size = 0;
    put_tar_entry(&archive, "a", '0', "abc", 3);
    put_tar_entry(&archive, "b", '0', "abc", 3);
    put_tar_end(&archive);
    int fd = memory_file(&archive);
    assert_int_equal(dataset_text_end(fd, &limits, end, sizeof(end), &size, &err), ERR_FORMAT);
    assert_holds(err.text, "b: a second file; a text is one");
    file_close(&fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_split_into_samples_whose_labels_are_the_next_bytes),
        cmocka_unit_test(a_packed_text_is_unpacked),
        cmocka_unit_test(a_too_short_or_too_large_text_is_rejected),
        cmocka_unit_test(the_end_of_a_text_is_its_last_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
