/* Archives of images and single images without classes, and the names that samples get. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/images_support.h"

static struct dataset_limits unlabelled_too = {
    .total_bytes = 1 << 20, .entries = 100, .unlabelled = true};

static int run_unlabelled(const int *fd, size_t count, const char *text, struct converted *out,
                          struct err *err)
{
    struct reading reading = reading_default;
    if (text) {
        assert_ok(reading_parse(text, &reading, err), err);
    }
    buf_init(&out->file, 1 << 20);
    return dataset_convert(fd, count, &reading, &unlabelled_too, append_bytes, &out->file,
                           &out->info, err);
}

static void check_no_labels(struct converted *converted, size_t count)
{
    assert_int_equal(converted->info.count, count);
    assert_int_equal(converted->info.classes, 0);
    assert_int_equal(converted->info.positions, 1);
    assert_int_equal(converted->file.size, converted->info.total_bytes);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(label_of(converted, i), 0);
    }
    converted_done(converted);
}

/* End the archive and convert it without labels being needed. */
static int run_flat(const char *text, struct converted *out, struct err *err)
{
    put_tar_end(&archive);
    int fd = memory_file(&archive);
    archive.size = 0;
    int rc = run_unlabelled(&fd, 1, text, out, err);
    file_close(&fd);
    return rc;
}

static void images_without_directories_have_no_labels_if_none_are_needed(void **state)
{
    (void)state;
    static const char *const said[] = {NULL, "channels=1", "size=8x8,label=prefix"};
    for (size_t i = 0; i < 3; i++) {
        struct converted converted;
        struct err err = {0};
        put_image("2.png", "colour.png", 0);
        put_image("./1.jpg", "grey.jpg", 0);
        assert_ok(run_flat(said[i], &converted, &err), &err);
        check_no_labels(&converted, 2);
    }
    struct converted converted;
    struct err err = {0};
    put_image("dog/1.png", "colour.png", 0);
    put_image("cat/1.png", "grey.png", 0);
    assert_ok(run_flat(NULL, &converted, &err), &err);
    assert_int_equal(converted.info.classes, 2);
    assert_int_equal(label_of(&converted, 0), 1);
    converted_done(&converted);
}

static void either_all_images_have_a_class_or_none(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"1.png", "cat/2.png"}, {"cat/1.png", "2.png"}};
    static const char *const parts[] = {"cat/2.png: says its class, and the files before it do not",
                                        "2.png: lies in no directory, which would be its class"};
    for (size_t i = 0; i < 2; i++) {
        struct converted converted;
        struct err err = {0};
        put_image(names[i][0], "colour.png", 0);
        put_image(names[i][1], "colour.png", 0);
        assert_int_equal(run_flat(NULL, &converted, &err), ERR_FORMAT);
        assert_holds(err.text, parts[i]);
        converted_done(&converted);
    }
}

static int image_file(const char *name)
{
    static struct bytes bytes;
    BUF_AUTO struct buf file;
    load_image(name, &file);
    bytes.size = 0;
    put(&bytes, file.data, file.size);
    return memory_file(&bytes);
}

static void separate_image_files_are_samples_without_labels(void **state)
{
    (void)state;
    struct converted one, all;
    struct err err = {0};
    int fd[3] = {image_file("colour.png"), image_file("grey.jpg"), image_file("grey.png")};
    assert_ok(run_unlabelled(fd, 3, NULL, &all, &err), &err);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(run_unlabelled(fd + i, 1, i == 1 ? "channels=3" : NULL, &one, &err), &err);
        assert_int_equal(one.info.h, 17);
        assert_int_equal(one.info.w, 22);
        assert_memory_equal(inputs_of(&one), inputs_of(&all) + i * PIXELS * 3, PIXELS * 3);
        check_no_labels(&one, 1);
    }
    check_no_labels(&all, 3);
    /* An upload needs the class. */
    buf_init(&one.file, 1 << 20);
    assert_int_equal(dataset_convert(fd, 1, &reading_default, &labelled_only, append_bytes,
                                     &one.file, &one.info, &err),
                     ERR_FORMAT);
    assert_holds(err.text, "file 1: unknown format; expected IDX");
    assert_int_equal(dataset_convert(fd, 2, &reading_default, &labelled_only, append_bytes,
                                     &one.file, &one.info, &err),
                     ERR_FORMAT);
    converted_done(&one);
    for (size_t i = 0; i < 3; i++) {
        file_close(&fd[i]);
    }
}

static void of_several_files_each_is_an_image(void **state)
{
    (void)state;
    static struct bytes rubbish;
    struct converted converted;
    struct err err = {0};
    put(&rubbish, "hello", 5);
    put_image("1.png", "colour.png", 0);
    put_tar_end(&archive);
    int fd[2] = {image_file("colour.png"), memory_file(&archive)};
    archive.size = 0;
    assert_int_equal(run_unlabelled(fd, 2, NULL, &converted, &err), ERR_FORMAT);
    assert_holds(err.text, "file 2: is an archive; one of several files is a sample");
    converted_done(&converted);
    file_close(&fd[1]);
    fd[1] = memory_file(&rubbish);
    assert_int_equal(run_unlabelled(fd, 2, "size=8x8", &converted, &err), ERR_FORMAT);
    assert_holds(err.text, "file 2: is neither JPEG nor PNG");
    converted_done(&converted);
    assert_int_equal(run_unlabelled(fd, 2, "text=8", &converted, &err), ERR_INVALID);
    assert_holds(err.text, "2 files");
    converted_done(&converted);
    file_close(&fd[0]);
    file_close(&fd[1]);
}

static void names_of_images_and_classes_are_returned(void **state)
{
    (void)state;
    struct dataset_names names = {0};
    struct converted converted;
    struct err err = {0};
    unlabelled_too.names = &names;
    put_image("./dog/1.png", "colour.png", 0);
    put_image("cat/\xff\n.png", "grey.png", 0);
    assert_ok(run_flat(NULL, &converted, &err), &err);
    assert_int_equal(names.sample.count, 2);
    assert_string_equal(names.sample.item[0], "./dog/1.png");
    assert_string_equal(names.sample.item[1], "cat/??.png");
    assert_int_equal(names.class.count, 2);
    assert_string_equal(names.class.item[0], "cat");
    assert_string_equal(names.class.item[1], "dog");
    converted_done(&converted);
    dataset_names_done(&names);

    static const char *const paths[] = {"a/dir/x\n.png", ".hidden.png"};
    names.file = paths;
    int fd[2] = {image_file("colour.png"), image_file("grey.png")};
    assert_ok(run_unlabelled(fd, 2, NULL, &converted, &err), &err);
    assert_int_equal(names.sample.count, 2);
    assert_string_equal(names.sample.item[0], "a/dir/x?.png");
    assert_string_equal(names.sample.item[1], ".hidden.png");
    check_no_labels(&converted, 2);
    dataset_names_done(&names);
    file_close(&fd[1]);
    put(&archive, "hello", 5);
    fd[1] = memory_file(&archive);
    archive.size = 0;
    assert_int_equal(run_unlabelled(fd, 2, NULL, &converted, &err), ERR_FORMAT);
    assert_holds(err.text, ".hidden.png: is neither JPEG nor PNG");
    converted_done(&converted);
    dataset_names_done(&names);
    file_close(&fd[0]);
    file_close(&fd[1]);
    unlabelled_too.names = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_without_directories_have_no_labels_if_none_are_needed),
        cmocka_unit_test(either_all_images_have_a_class_or_none),
        cmocka_unit_test(separate_image_files_are_samples_without_labels),
        cmocka_unit_test(of_several_files_each_is_an_image),
        cmocka_unit_test(names_of_images_and_classes_are_returned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
