#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/test.h"

static size_t count_entries(const char *directory)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, NULL, alphasort);
    assert_true(count >= 2);
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
    return (size_t)count - 2;
}

static void a_written_value_reads_back_unchanged(void **state)
{
    struct err err = {0};
    struct test_path path = test_path_in(*state, "file");
    assert_ok(file_write_atomic(path.text, "a\0b", 3, 0640, &err), &err);
    assert_ok(file_write_atomic(path.text, "c\0de", 4, 0600, &err), &err);
    BUF_AUTO struct buf out;
    buf_init(&out, 100);
    assert_ok(file_read(path.text, &out, &err), &err);
    assert_int_equal(out.size, 4);
    assert_memory_equal(out.data, "c\0de", 5);
    struct stat status;
    assert_int_equal(stat(path.text, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(count_entries(*state), 1);
}

static void a_file_may_be_exactly_as_large_as_the_limit(void **state)
{
    struct err err = {0};
    struct test_path path = test_path_in(*state, "file");
    char *data = calloc(1, 200000);
    assert_non_null(data);
    assert_ok(file_write_atomic(path.text, data, 200000, 0600, &err), &err);
    free(data);
    BUF_AUTO struct buf out;
    buf_init(&out, 200000);
    assert_ok(file_read(path.text, &out, &err), &err);
    assert_int_equal(out.size, 200000);
    buf_done(&out);
    buf_init(&out, 199999);
    assert_int_equal(file_read(path.text, &out, &err), ERR_LIMIT);
    assert_holds(err.text, path.text);
}

static void an_empty_file_reads_as_nothing(void **state)
{
    struct err err = {0};
    struct test_path path = test_path_in(*state, "file");
    assert_ok(file_write_atomic(path.text, NULL, 0, 0600, &err), &err);
    BUF_AUTO struct buf out;
    buf_init(&out, 10);
    assert_ok(file_read(path.text, &out, &err), &err);
    assert_int_equal(out.size, 0);
}

static void failures_name_the_path_and_the_reason(void **state)
{
    struct err err = {0};
    BUF_AUTO struct buf out;
    buf_init(&out, 10);
    struct test_path path = test_path_in(*state, "missing/file");
    assert_int_equal(file_read(path.text, &out, &err), ERR_NOT_FOUND);
    assert_holds(err.text, "missing/file': No such file or directory");
    assert_int_equal(file_write_atomic(path.text, "x", 1, 0600, &err), ERR_NOT_FOUND);
    assert_holds(err.text, "No such file or directory");
    assert_int_equal(file_read(*state, &out, &err), ERR_IO);
    assert_holds(err.text, "Is a directory");
    assert_int_equal(file_write_atomic(*state, "x", 1, 0600, &err), ERR_IO);
}

static void a_failed_write_leaves_no_temporary_file(void **state)
{
    struct err err = {0};
    struct test_path path = test_path_in(*state, "taken");
    assert_int_equal(mkdir(path.text, 0700), 0);
    assert_int_equal(file_write_atomic(path.text, "x", 1, 0600, &err), ERR_IO);
    assert_int_equal(count_entries(*state), 1);
}

static void a_draft_is_seen_when_it_is_kept_and_leaves_nothing_when_it_is_dropped(void **state)
{
    struct test_path path = test_path_in(*state, "draft");
    struct err err = {0};
    BUF_AUTO struct buf back;
    buf_init(&back, 100);
    assert_ok(file_write_atomic(path.text, "old", 3, 0600, &err), &err);
    size_t entries = count_entries(*state);
    for (int kept = 0; kept < 2; kept++) {
        struct file_draft draft;
        assert_ok(file_draft_open(&draft, path.text, 0600, &err), &err);
        assert_ok(file_draft_append(&draft, "ne", 2, &err), &err);
        assert_ok(file_draft_append(&draft, "w", 1, &err), &err);
        if (kept) {
            assert_ok(file_draft_keep(&draft, &err), &err);
        }
        file_draft_drop(&draft);
        assert_int_equal(count_entries(*state), entries);
        back.size = 0;
        assert_ok(file_read(path.text, &back, &err), &err);
        assert_int_equal(back.size, 3);
        assert_memory_equal(back.data, kept ? "new" : "old", 3);
    }
}

static void a_path_that_is_too_long_is_refused(void **state)
{
    (void)state;
    char path[8192];
    memset(path, 'a', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(file_write_atomic(path, "x", 1, 0600, NULL), ERR_INVALID);
    assert_int_equal(file_make_directory(path, 0700, NULL), ERR_INVALID);
    assert_int_equal(file_make_directory("", 0700, NULL), ERR_INVALID);
}

static void directories_are_made_with_their_parents(void **state)
{
    struct err err = {0};
    struct test_path path = test_path_in(*state, "a//b/c/");
    assert_ok(file_make_directory(path.text, 0700, &err), &err);
    assert_ok(file_make_directory(path.text, 0700, &err), &err);
    struct stat status;
    assert_int_equal(stat(path.text, &status), 0);
    assert_true(S_ISDIR(status.st_mode));
}

static void a_file_in_the_way_of_a_directory_is_named(void **state)
{
    struct err err = {0};
    struct test_path path = test_path_in(*state, "file");
    assert_ok(file_write_atomic(path.text, "x", 1, 0600, &err), &err);
    assert_int_equal(file_make_directory(path.text, 0700, &err), ERR_EXISTS);
    assert_holds(err.text, path.text);
    struct test_path below = test_path_in(path.text, "directory");
    assert_int_equal(file_make_directory(below.text, 0700, &err), ERR_EXISTS);
}

static void pieces_are_written_and_read_at_their_offsets(void **state)
{
    struct err err = {0};
    struct test_path path = test_path_in(*state, "file");
    FD_AUTO int fd = open(path.text, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_ok(file_write_at(fd, "world", 5, 6, &err), &err);
    assert_ok(file_write_at(fd, "hello ", 6, 0, &err), &err);
    char text[12] = "";
    assert_ok(file_read_at(fd, text, 11, 0, &err), &err);
    assert_string_equal(text, "hello world");
    assert_int_equal(file_read_at(fd, text, 11, 4, &err), ERR_FORMAT);
    assert_string_equal(err.text, "ends at byte 11, 4 bytes early");
    file_close(&fd);
    assert_int_equal(fd, -1);
    assert_int_equal(file_read_at(fd, text, 1, 0, &err), ERR_IO);
    assert_int_equal(file_write_at(fd, text, 1, 0, &err), ERR_IO);
}

static void free_space_is_reported_for_an_existing_path(void **state)
{
    struct err err = {0};
    uint64_t bytes = 0;
    assert_ok(file_free_bytes(*state, &bytes, &err), &err);
    assert_true(bytes > 0);
    struct test_path path = test_path_in(*state, "missing");
    assert_int_equal(file_free_bytes(path.text, &bytes, &err), ERR_NOT_FOUND);
}

static void the_state_directory_follows_the_environment(void **state)
{
    (void)state;
    struct err err = {0};
    char path[100];
    assert_int_equal(unsetenv("STATE_DIRECTORY"), 0);
    assert_int_equal(setenv("HOME", "/home/x", 1), 0);
    assert_int_equal(setenv("XDG_STATE_HOME", "/state", 1), 0);
    assert_ok(file_default_state_directory("agent", path, sizeof(path), &err), &err);
    assert_string_equal(path, "/state/paceline/agent");
    assert_int_equal(setenv("XDG_STATE_HOME", "relative", 1), 0);
    assert_ok(file_default_state_directory("agent", path, sizeof(path), &err), &err);
    assert_string_equal(path, "/home/x/.local/state/paceline/agent");
    assert_int_equal(file_default_state_directory("agent", path, 10, &err), ERR_LIMIT);
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(file_default_state_directory("agent", path, sizeof(path), &err),
                     ERR_NOT_FOUND);
}

static void a_service_managers_state_directory_comes_first(void **state)
{
    (void)state;
    static const struct {
        const char *list, *expected;
    } cases[] = {{"/var/lib/x", "/var/lib/x"},
                 {"/var/lib/x:/var/lib/y", "/var/lib/x"},
                 {"relative", "/state/paceline/agent"},
                 {"", "/state/paceline/agent"}};
    assert_int_equal(setenv("XDG_STATE_HOME", "/state", 1), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = {0};
        char path[100];
        assert_int_equal(setenv("STATE_DIRECTORY", cases[i].list, 1), 0);
        assert_ok(file_default_state_directory("agent", path, sizeof(path), &err), &err);
        assert_string_equal(path, cases[i].expected);
    }
    assert_int_equal(unsetenv("STATE_DIRECTORY"), 0);
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_written_value_reads_back_unchanged),
        test_with_directory(a_file_may_be_exactly_as_large_as_the_limit),
        test_with_directory(an_empty_file_reads_as_nothing),
        test_with_directory(failures_name_the_path_and_the_reason),
        test_with_directory(a_failed_write_leaves_no_temporary_file),
        test_with_directory(a_draft_is_seen_when_it_is_kept_and_leaves_nothing_when_it_is_dropped),
        cmocka_unit_test(a_path_that_is_too_long_is_refused),
        test_with_directory(directories_are_made_with_their_parents),
        test_with_directory(a_file_in_the_way_of_a_directory_is_named),
        test_with_directory(pieces_are_written_and_read_at_their_offsets),
        test_with_directory(free_space_is_reported_for_an_existing_path),
        cmocka_unit_test(the_state_directory_follows_the_environment),
        cmocka_unit_test(a_service_managers_state_directory_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
