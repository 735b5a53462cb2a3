#include "base/archive.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/data.h"
#include "schema/id.h"
#include "tests/support/test.h"

#define BLOCK 512

static void put(const char *directory, const char *name, const char *text)
{
    struct test_path path = test_path_in(directory, name);
    struct err err = {0};
    char *slash = strrchr(path.text, '/');
    *slash = '\0';
    assert_ok(file_make_directory(path.text, 0755, &err), &err);
    *slash = '/';
    assert_ok(file_write_atomic(path.text, text, strlen(text), 0600, &err), &err);
}

/* All bytes, read in pieces of a size. */
static void read_all(struct archive *archive, size_t piece, struct buf *out)
{
    struct err err = {0};
    buf_init(out, 1 << 20);
    for (;;) {
        char *to = buf_reserve(out, piece, &err);
        assert_non_null(to);
        ssize_t size = archive_read(archive, to, piece);
        assert_true(size >= 0);
        if (size == 0) {
            break;
        }
        out->size += (size_t)size;
    }
    assert_int_equal(out->size, archive_size(archive));
}

static void check_names(const char *directory, enum archive_part part, const char *expected)
{
    AUTO(archive_free) struct archive *archive = NULL;
    BUF_AUTO struct buf names;
    struct err err = {0};
    buf_init(&names, 1 << 16);
    assert_ok(archive_open(directory, part, &archive, &err), &err);
    assert_ok(data_names(archive, &names, &err), &err);
    assert_string_equal(names.data, expected);
}

static void files_are_sorted_and_padded(void **state)
{
    const char *directory = *state;
    put(directory, "b/two", "22");
    put(directory, "a/one", "1");
    put(directory, ".hidden", "x");
    AUTO(archive_free) struct archive *archive = NULL;
    struct err err = {0};
    assert_ok(archive_open(directory, ARCHIVE_ALL, &archive, &err), &err);
    assert_int_equal(archive_size(archive), 6 * BLOCK);
    BUF_AUTO struct buf whole;
    read_all(archive, 4096, &whole);
    assert_string_equal(whole.data, "a/one");
    assert_memory_equal(whole.data + 124, "00000000001", 12);
    assert_memory_equal(whole.data + 257, "ustar", 6);
    assert_string_equal(whole.data + BLOCK, "1");
    assert_string_equal(whole.data + 2 * BLOCK, "b/two");
    assert_string_equal(whole.data + 3 * BLOCK, "22");
    archive_rewind(archive);
    BUF_AUTO struct buf again;
    read_all(archive, 7, &again);
    assert_memory_equal(again.data, whole.data, whole.size);
}

static void check_order(const struct archive *archive, const char *const *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(archive_entry(archive, i), expected[i]);
    }
    assert_null(archive_entry(archive, count));
}

static void files_of_before_come_first_if_all_are_there(void **state)
{
    const char *directory = *state;
    static const char *const sorted[] = {"a/one", "b/two", "c/three"};
    static const char *const ordered[] = {"c/three", "b/two", "a/one"};
    static const char before[] = "c/three\0b/two", gone[] = "c/three\0b/none",
                      twice[] = "b/two\0b/two";
    AUTO(archive_free) struct archive *archive = NULL;
    struct err err = {0};
    for (size_t i = 0; i < 3; i++) {
        put(directory, sorted[i], "1");
    }
    assert_ok(archive_open(directory, ARCHIVE_ALL, &archive, &err), &err);
    check_order(archive, sorted, 3);
    assert_false(archive_put_first(archive, gone, sizeof(gone)));
    assert_false(archive_put_first(archive, twice, sizeof(twice)));
    assert_false(archive_put_first(archive, before, sizeof(before) - 1)); /* it is cut off */
    check_order(archive, sorted, 3);
    assert_true(archive_put_first(archive, before, sizeof(before)));
    check_order(archive, ordered, 3);
}

static void the_same_files_are_the_same_bytes(void **state)
{
    const char *directory = *state;
    put(directory, "x/f", "data");
    struct test_path file = test_path_in(directory, "x/f");
    struct test_path inner = test_path_in(directory, "x");
    AUTO(archive_free) struct archive *archive = NULL;
    AUTO(archive_free) struct archive *later = NULL;
    struct err err = {0};
    BUF_AUTO struct buf before;
    BUF_AUTO struct buf after;
    assert_ok(archive_open(inner.text, ARCHIVE_ALL, &archive, &err), &err);
    read_all(archive, 100, &before);
    assert_int_equal(chmod(file.text, 0640), 0);
    assert_int_equal(truncate(file.text, 0), 0);
    put(directory, "x/f", "data");
    assert_ok(archive_open(inner.text, ARCHIVE_ALL, &later, &err), &err);
    read_all(later, 100, &after);
    assert_memory_equal(before.data, after.data, before.size);
}

static void two_sets_in_one_directory_are_told_apart(void **state)
{
    const char *directory = *state;
    put(directory, "t10k-images", "a");
    put(directory, "train-images", "b");
    put(directory, "README", "c");
    check_names(directory, ARCHIVE_TRAIN, " train-images");
    check_names(directory, ARCHIVE_TEST, " t10k-images");
    check_names(directory, ARCHIVE_ALL, " README t10k-images train-images");
}

static void a_directory_of_one_set_is_taken_whole(void **state)
{
    const char *directory = *state;
    put(directory, "cat/1 x.png", "a");
    put(directory, "train/2.png", "b");
    check_names(directory, ARCHIVE_TEST, " cat train");
}

static void a_long_name_is_split_and_a_longer_one_refused(void **state)
{
    const char *directory = *state;
    char name[250], text[260];
    memset(name, 'n', sizeof(name));
    name[60] = '/';
    name[150] = '\0';
    put(directory, name, "x");
    AUTO(archive_free) struct archive *archive = NULL;
    struct err err = {0};
    assert_ok(archive_open(directory, ARCHIVE_ALL, &archive, &err), &err);
    BUF_AUTO struct buf whole;
    read_all(archive, 4096, &whole);
    assert_int_equal(strlen(whole.data), 89);
    assert_int_equal(strlen(whole.data + 345), 60);
    memset(text, 'm', 120);
    text[120] = '\0';
    put(directory, text, "x");
    AUTO(archive_free) struct archive *refused = NULL;
    assert_int_equal(archive_open(directory, ARCHIVE_ALL, &refused, &err), ERR_INVALID);
    assert_holds(err.text, "make the archive with tar");
}

static void a_file_that_shrinks_ends_the_archive(void **state)
{
    const char *directory = *state;
    put(directory, "f", "twelve bytes");
    struct test_path file = test_path_in(directory, "f");
    AUTO(archive_free) struct archive *archive = NULL;
    struct err err = {0};
    char bytes[4096];
    assert_ok(archive_open(directory, ARCHIVE_ALL, &archive, &err), &err);
    assert_int_equal(truncate(file.text, 3), 0);
    assert_int_equal(archive_read(archive, bytes, sizeof(bytes)), BLOCK);
    assert_int_equal(archive_read(archive, bytes, sizeof(bytes)), -1);
    assert_int_equal(archive_error(archive)->code, ERR_FORMAT);
}

static void an_empty_directory_is_refused(void **state)
{
    AUTO(archive_free) struct archive *archive = NULL;
    struct err err = {0};
    assert_int_equal(archive_open(*state, ARCHIVE_ALL, &archive, &err), ERR_INVALID);
    assert_holds(err.text, "has no files");
    assert_int_equal(archive_open("/nonexistent", ARCHIVE_ALL, &archive, &err), ERR_NOT_FOUND);
}

static void the_name_of_data_is_that_of_its_content(void **state)
{
    (void)state;
    static const char hash[] = "3fa9c1d2e4b57788";
    char name[NAME_SIZE];
    data_name("/x/Fashion Mini/", ARCHIVE_TRAIN, hash, name);
    assert_string_equal(name, "fashion-mini-train-3fa9c1d2e4b5");
    data_name("words.tar.gz", ARCHIVE_ALL, hash, name);
    assert_string_equal(name, "words.tar.gz-3fa9c1d2e4b5");
    data_name("/", ARCHIVE_TEST, hash, name);
    assert_string_equal(name, "data-test-3fa9c1d2e4b5");
    char path[300];
    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    data_name(path, ARCHIVE_TEST, hash, name);
    assert_int_equal(strlen(name), NAME_SIZE - 1);
    assert_holds(name, "x-test-3fa9c1d2e4b5");
    assert_true(name_valid(name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(files_are_sorted_and_padded),
        test_with_directory(files_of_before_come_first_if_all_are_there),
        test_with_directory(the_same_files_are_the_same_bytes),
        test_with_directory(two_sets_in_one_directory_are_told_apart),
        test_with_directory(a_directory_of_one_set_is_taken_whole),
        test_with_directory(a_long_name_is_split_and_a_longer_one_refused),
        test_with_directory(a_file_that_shrinks_ends_the_archive),
        test_with_directory(an_empty_directory_is_refused),
        cmocka_unit_test(the_name_of_data_is_that_of_its_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
