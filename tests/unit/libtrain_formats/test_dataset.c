#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "libtrain/formats/safetensors.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_formats/formats_support.h"

static struct bytes file, images, labels; /* too large for a stack */

static int append(void *arg, const void *data, size_t size, struct err *err)
{
    return buf_append(arg, data, size, err);
}

static const char *note; /* of the next put_form, as JSON; NULL: none */

/* A safetensors file with its tensors in either order, in `file`. */
static void put_form(bool labels_first, uint64_t label_count, enum dtype label_dtype)
{
    struct safetensors_tensor inputs = {
        .name = "inputs", .dtype = DTYPE_U8, .rank = 4, .dim = {3, 2, 2, 1}};
    struct safetensors_tensor label = {
        .name = "labels", .dtype = label_dtype, .rank = 1, .dim = {label_count}};
    struct safetensors_tensor tensor[2] = {labels_first ? label : inputs,
                                           labels_first ? inputs : label};
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = 2, .tensor_count = 2};
    static const int32_t values[] = {5, 0, 1, 0, 0, 0};
    size_t size = 0;
    struct err err = {0};
    if (note) {
        header.metadata[0] = (struct safetensors_metadata){.key = "paceline", .long_value = note};
        header.metadata_count = 1;
    }
    assert_ok(safetensors_write(&header, (char *)file.data, sizeof(file.data), &size, &err), &err);
    file.size = size;
    if (labels_first) {
        put(&file, values, (size_t)label_count * dtype_size(label_dtype));
    }
    put(&file, "abcdefghijkl", 12);
    if (!labels_first) {
        put(&file, values, (size_t)label_count * dtype_size(label_dtype));
    }
}

static void the_one_form_is_read_in_either_order_and_written_in_one(void **state)
{
    (void)state;
    for (int labels_first = 0; labels_first < 2; labels_first++) {
        struct converted converted;
        put_form(labels_first, 3, DTYPE_I32);
        convert_ok(&file, NULL, &converted);
        assert_int_equal(converted.info.count, 3);
        assert_int_equal(converted.info.classes, 6);
        assert_true(converted.info.inputs_offset < converted.info.labels_offset);
        assert_memory_equal(inputs_of(&converted), "abcdefghijkl", 12);
        assert_int_equal(label_of(&converted, 0), 5);
        converted_done(&converted);
    }
}

/* The info that dataset_convert finds in the bytes of a result. */
static void convert_named(const struct buf *from, struct dataset_names *names,
                          struct converted *out)
{
    const struct dataset_limits limits = {.total_bytes = 1 << 20, .entries = 8, .names = names};
    int fd = memfd_create("again", MFD_CLOEXEC);
    struct err err = {0};
    buf_init(&out->file, 1 << 20);
    assert_ok(file_write_at(fd, from->data, from->size, 0, &err), &err);
    assert_ok(
        dataset_convert(&fd, 1, &reading_default, &limits, append, &out->file, &out->info, &err),
        &err);
    file_close(&fd);
}

static void the_one_form_contains_the_names_of_its_classes(void **state)
{
    (void)state;
    struct converted first, second;
    struct dataset_names names = {0};
    note = "{\"class_names\":[\"a\",\"b\",\"c\",\"d \\\"4\\\"\",\"e\",\"caf%E9\",\"in no sample\"],"
           "\"reading\":\"sound=8000,clip_ms=1000,window_ms=40,hop_ms=20,mels=2,floor_db=60\"}";
    put_form(true, 3, DTYPE_I32);
    convert_ok(&file, NULL, &first);
    assert_int_equal(first.info.classes, 7);
    assert_string_equal(first.info.reading,
                        "sound=8000,clip_ms=1000,window_ms=40,hop_ms=20,mels=2,floor_db=60");
    convert_named(&first.file, &names, &second);
    assert_int_equal(second.file.size, first.file.size);
    assert_memory_equal(second.file.data, first.file.data, first.file.size);
    assert_string_equal(second.info.reading, first.info.reading);
    assert_int_equal(names.class.count, 7);
    assert_string_equal(names.class.item[3], "d \"4\"");
    assert_string_equal(names.class.item[5], "caf%E9");
    assert_int_equal(names.sample.count, 0);
    converted_done(&first);
    converted_done(&second);
    dataset_names_done(&names);
    note = NULL;
}

static void wrong_metadata_of_a_data_set_is_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *note, *part;
    } wrong[] = {
        {"{\"class_names\":[\"a\",\"b\"]}", "has labels up to 5 and 2 class_names"},
        {"{\"class_names\":[\"a\",\"a\"]}",
         "what it says of its data: class_names: 'a' occurs twice"},
        {"{\"class_names\":\"a\"}", "expected a list"},
        {"{\"class_name\":[]}", "did you mean 'class_names'?"},
        {"{\"reading\":\"sound=8000\"}",
         "reading: 'sound=8000': expected how sounds become samples, 'sound=8000,clip"},
        {"{\"reading\":\"text=64\"}", "reading: 'text=64'"},
        {"{", "what it says of its data: "},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct converted converted;
        struct err err = {0};
        note = wrong[i].note;
        put_form(false, 3, DTYPE_I32);
        assert_int_not_equal(convert(&file, NULL, &converted, &err), 0);
        assert_holds(err.text, wrong[i].part);
        converted_done(&converted);
    }
    note = NULL;
}

static void other_forms_of_a_data_set_are_rejected(void **state)
{
    (void)state;
    put_form(false, 2, DTYPE_I32);
    convert_fails(&file, NULL, ERR_FORMAT, "file 1: 2 labels for 3 samples");
    put_form(false, 3, DTYPE_I64);
    convert_fails(&file, NULL, ERR_FORMAT, "'labels' must be I32");
    put_form(false, 3, DTYPE_I32);
    file.size -= 4;
    convert_fails(&file, NULL, ERR_FORMAT, "the labels end 4 bytes early");
    put_form(false, 3, DTYPE_I32);
    file.size = 20;
    convert_fails(&file, NULL, ERR_FORMAT, "the header ends");
    put_form(false, 3, DTYPE_I32);
    file.data[2] = 0x7F;
    convert_fails(&file, NULL, ERR_LIMIT, "a data set's has at most 137216");
}

static void an_open_file_is_checked_against_its_size(void **state)
{
    (void)state;
    struct dataset_info info = {.count = 77};
    struct err err = {0};
    put_form(false, 3, DTYPE_I32);
    put_zeros(&file, 1);
    int fd = memory_file(&file);
    assert_int_equal(dataset_read_info(fd, &info, &err), ERR_FORMAT);
    assert_holds(err.text, "bytes, its header says");
    assert_int_equal(info.count, 77);
    file_close(&fd);
}

static void one_of_the_two_is_not_enough(void **state)
{
    (void)state;
    images.size = labels.size = 0;
    put_idx_images(&images, 2, 2, 2);
    put_idx_labels(&labels, 2);
    convert_fails(&images, NULL, ERR_FORMAT, "file 1: samples alone");
    convert_fails(&labels, NULL, ERR_FORMAT, "file 1: labels alone");
    convert_fails(&images, &images, ERR_FORMAT, "file 1 has samples, file 2 has samples");
    put_form(false, 3, DTYPE_I32);
    convert_fails(&file, &labels, ERR_FORMAT, "file 1 has a whole data set, file 2 has labels");
}

static int append_to(void *arg, const void *data, size_t size, struct err *err)
{
    return buf_append(arg, data, size, err);
}

static void images_alone_are_taken_where_labels_are_not_needed(void **state)
{
    (void)state;
    static const struct dataset_limits limits = {
        .total_bytes = 1 << 20, .entries = 8, .unlabelled = true};
    struct converted converted = {0};
    struct err err = {0};
    images.size = labels.size = 0;
    put_idx_images(&images, 3, 2, 2);
    put_idx_labels(&labels, 3);
    int fd[2] = {memory_file(&images), memory_file(&labels)};
    buf_init(&converted.file, 1 << 20);
    assert_ok(dataset_convert(fd, 1, &reading_default, &limits, append_to, &converted.file,
                              &converted.info, &err),
              &err);
    assert_int_equal(converted.info.count, 3);
    assert_int_equal(converted.info.classes, 0);
    assert_int_equal(converted.file.size, converted.info.total_bytes);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(label_of(&converted, i), 0);
    }
    buf_clear(&converted.file);
    assert_ok(dataset_convert(fd, 2, &reading_default, &limits, append_to, &converted.file,
                              &converted.info, &err),
              &err);
    assert_true(converted.info.classes > 0);
    buf_clear(&converted.file);
    assert_int_equal(dataset_convert(fd + 1, 1, &reading_default, &limits, append_to,
                                     &converted.file, &converted.info, &err),
                     ERR_FORMAT);
    assert_holds(err.text, "file 1: labels alone");
    converted_done(&converted);
    file_close(&fd[0]);
    file_close(&fd[1]);
}

static void a_text_is_not_recognised(void **state)
{
    (void)state;
    file.size = 0;
    put(&file, "hello, world", 12);
    convert_fails(&file, NULL, ERR_FORMAT, "file 1: unknown format; expected IDX, NPY, CIFAR-10");
}

static void errors_name_other_kinds_of_archives(void **state)
{
    (void)state;
    static const struct {
        const char *start, *name;
    } cases[] = {{"PK\3\4....", "a zip (as .npz is)"},
                 {"7z\xbc\xaf\x27\x1c..", "a 7z"},
                 {"BZh91AY", "a bzip2 file"},
                 {"\xfd"
                  "7zXZ.",
                  "unknown format; expected IDX"},
                 {"\x28\xb5\x2f\xfd....", "a zstd file"},
                 {"Rar!\x1a\x07..", "a rar"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        file.size = 0;
        put(&file, cases[i].start, strlen(cases[i].start));
        convert_fails(&file, NULL, ERR_FORMAT, cases[i].name);
    }
    file.size = 0;
    put(&file,
        "\xfd"
        "7zXZ\0..",
        8);
    convert_fails(&file, NULL, ERR_FORMAT, "file 1: is an xz file; send a tar or tar.gz");
}

static int check_head(const char *start, size_t size, const char *reading, struct err *err)
{
    uint8_t head[DATASET_HEAD_BYTES];
    struct reading how = reading_default;
    memset(head, 'x', sizeof(head));
    memcpy(head, start, size);
    if (reading[0]) {
        assert_ok(reading_parse(reading, &how, err), err);
    }
    return dataset_check_head(head, &how, err);
}

static void a_file_of_another_kind_is_rejected_by_its_first_bytes(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(check_head("hello", 5, "", &err), ERR_FORMAT);
    assert_holds(err.text, "file 1: unknown format; expected IDX, NPY, CIFAR-10");
    assert_int_equal(check_head("PK\3\4", 4, "", &err), ERR_FORMAT);
    assert_holds(err.text, "file 1: is a zip (as .npz is); send a tar or tar.gz");
    assert_int_equal(check_head("RIFF", 4, "sound=8000", &err), ERR_FORMAT);
    assert_holds(err.text, "file 1: is not a tar (or tar.gz)");
    assert_ok(check_head("hello", 5, "text=8", &err), &err);
    assert_ok(check_head("\x1f\x8b\x08", 3, "", &err), &err);
    assert_ok(check_head("\x1f\x8b\x08", 3, "sound=8000", &err), &err);
    assert_ok(check_head("\x93NUMPY\1\0", 8, "", &err), &err);
    assert_ok(check_head("\0\0\x08\3", 4, "", &err), &err);
    assert_ok(check_head("\5", 1, "", &err), &err); /* a label of CIFAR-10 */
    assert_ok(check_head("\x40\0\0\0\0\0\0\0{", 9, "", &err), &err);
}

static int stop_at(void *arg, const void *data, size_t size, struct err *err)
{
    size_t *left = arg;
    (void)data;
    if (size > *left) {
        return err_set(err, ERR_FULL, "no space left");
    }
    *left -= size;
    return 0;
}

static void an_error_of_the_sink_is_returned_unchanged(void **state)
{
    (void)state;
    static const struct dataset_limits limits = {.total_bytes = 1 << 20, .entries = 8};
    images.size = labels.size = 0;
    put_idx_images(&images, 40, 20, 20);
    put_idx_labels(&labels, 40);
    int fd[2] = {memory_file(&images), memory_file(&labels)};
    static const size_t room[] = {0, 300, 16200};
    for (size_t i = 0; i < 3; i++) {
        size_t left = room[i];
        struct dataset_info info;
        struct err err = {0};
        assert_int_equal(
            dataset_convert(fd, 2, &reading_default, &limits, stop_at, &left, &info, &err),
            ERR_FULL);
        assert_string_equal(err.text, "no space left");
    }
    file_close(&fd[0]);
    file_close(&fd[1]);
}

static void the_limit_on_bytes_stops_large_results_and_gzip_bombs(void **state)
{
    (void)state;
    static const struct dataset_limits limits = {.total_bytes = 4096, .entries = 8};
    static const uint32_t bomb[] = {1, 8192, 8192};
    struct dataset_info info;
    struct err err = {0};
    size_t left = SIZE_MAX;
    images.size = labels.size = 0;
    put_idx_images(&images, 60, 28, 28);
    put_idx_labels(&labels, 60);
    int fd[2] = {memory_file(&images), memory_file(&labels)};
    assert_int_equal(dataset_convert(fd, 2, &reading_default, &limits, stop_at, &left, &info, &err),
                     ERR_LIMIT);
    assert_holds(err.text, "at most 4096 are allowed");
    assert_true(left == SIZE_MAX);
    file_close(&fd[0]);

    /* 3 MB of zeros in 3 KB: members of 60 KB each, one after the other. */
    images.size = 0;
    put_idx_header(&images, bomb, 3);
    compress_gzip(&images);
    static struct bytes member;
    for (int i = 0; i < 50; i++) {
        member.size = 0;
        put_zeros(&member, 60000);
        compress_gzip(&member);
        put(&images, member.data, member.size);
    }
    fd[0] = memory_file(&images);
    assert_int_equal(dataset_convert(fd, 2, &reading_default, &limits, stop_at, &left, &info, &err),
                     ERR_LIMIT);
    assert_holds(err.text, "file 1: expands to more than");
    file_close(&fd[0]);
    file_close(&fd[1]);
}

static void a_pipe_is_not_a_file(void **state)
{
    (void)state;
    static const struct dataset_limits limits = {.total_bytes = 4096, .entries = 8};
    int ends[2];
    size_t left = 0;
    struct dataset_info info;
    struct err err = {0};
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(
        dataset_convert(ends, 1, &reading_default, &limits, stop_at, &left, &info, &err),
        ERR_INVALID);
    assert_holds(err.text, "file 1: is not a regular file");
    file_close(&ends[0]);
    file_close(&ends[1]);
}

/* Convert one file, or images and labels, and count its classes. */
static void count_classes(const struct bytes *first, const struct bytes *second,
                          struct dataset_counts *counts)
{
    const struct dataset_limits limits = {.total_bytes = 1 << 20, .entries = 8, .counts = counts};
    int fd[2] = {memory_file(first), second ? memory_file(second) : -1};
    struct converted converted;
    struct err err = {0};
    *counts = (struct dataset_counts){0};
    buf_init(&converted.file, 1 << 20);
    assert_ok(dataset_convert(fd, second ? 2 : 1, &reading_default, &limits, append,
                              &converted.file, &converted.info, &err),
              &err);
    file_close(&fd[0]);
    if (second) {
        file_close(&fd[1]);
    }
    assert_true(counts->classes == 0 || counts->classes == converted.info.classes);
    converted_done(&converted);
}

static void the_samples_of_each_class_are_counted(void **state)
{
    (void)state;
    struct dataset_counts counts;
    put_form(true, 3, DTYPE_I32); /* labels 5, 0, 1 */
    count_classes(&file, NULL, &counts);
    assert_int_equal(counts.classes, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(counts.samples[i], i < 2 || i == 5);
    }
    note = "{\"class_names\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"in no sample\"]}";
    put_form(false, 3, DTYPE_I32);
    count_classes(&file, NULL, &counts);
    assert_int_equal(counts.classes, 7);
    assert_int_equal(counts.samples[6], 0);
    note = NULL;
}

static void the_first_samples_alone_are_the_same_bytes(void **state)
{
    (void)state;
    struct converted all, few;
    struct err err = {0};
    BUF_AUTO struct buf part;
    buf_init(&part, 1 << 20);
    images.size = labels.size = 0;
    put_idx_images(&images, 9, 2, 3);
    put_idx_labels(&labels, 9);
    convert_ok(&images, &labels, &all);
    images.size = labels.size = 0;
    put_idx_images(&images, 4, 2, 3);
    put_idx_labels(&labels, 4);
    convert_ok(&images, &labels, &few);
    const unsigned char *bytes = (const unsigned char *)all.file.data;
    assert_ok(dataset_send_prefix(bytes, 4, append_to, &part, &err), &err);
    assert_int_equal(part.size, few.file.size);
    assert_memory_equal(part.data, few.file.data, part.size);
    buf_clear(&part);
    assert_ok(dataset_send_prefix(bytes, 9, append_to, &part, &err), &err);
    assert_int_equal(part.size, all.file.size);
    assert_memory_equal(part.data, all.file.data, part.size);
    assert_int_equal(dataset_send_prefix(bytes, 10, append_to, &part, &err), ERR_INVALID);
    assert_int_equal(dataset_send_prefix(bytes, 0, append_to, &part, &err), ERR_INVALID);
    converted_done(&all);
    converted_done(&few);
}

static void more_than_1024_classes_are_not_counted(void **state)
{
    (void)state;
    struct dataset_counts counts;
    for (uint16_t largest = 1022; largest <= 1025; largest++) {
        const uint16_t label[] = {0, 3, largest};
        images.size = labels.size = 0;
        put_idx_images(&images, 3, 2, 2);
        put_npy(&labels, "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }", label,
                sizeof(label));
        count_classes(&images, &labels, &counts);
        assert_int_equal(counts.classes, largest < 1024 ? largest + 1u : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_form_is_read_in_either_order_and_written_in_one),
        cmocka_unit_test(the_one_form_contains_the_names_of_its_classes),
        cmocka_unit_test(wrong_metadata_of_a_data_set_is_rejected),
        cmocka_unit_test(other_forms_of_a_data_set_are_rejected),
        cmocka_unit_test(an_open_file_is_checked_against_its_size),
        cmocka_unit_test(one_of_the_two_is_not_enough),
        cmocka_unit_test(images_alone_are_taken_where_labels_are_not_needed),
        cmocka_unit_test(a_text_is_not_recognised),
        cmocka_unit_test(errors_name_other_kinds_of_archives),
        cmocka_unit_test(a_file_of_another_kind_is_rejected_by_its_first_bytes),
        cmocka_unit_test(an_error_of_the_sink_is_returned_unchanged),
        cmocka_unit_test(the_limit_on_bytes_stops_large_results_and_gzip_bombs),
        cmocka_unit_test(a_pipe_is_not_a_file),
        cmocka_unit_test(the_samples_of_each_class_are_counted),
        cmocka_unit_test(the_first_samples_alone_are_the_same_bytes),
        cmocka_unit_test(more_than_1024_classes_are_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
