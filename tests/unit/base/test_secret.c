#include "base/secret.h"

#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"

static int read_text(const char *directory, const char *text, size_t size, char *out,
                     struct err *err)
{
    struct test_path path = test_path_in(directory, "secret");
    assert_ok(file_write_atomic(path.text, text, size, 0600, err), err);
    return secret_read(path.text, out, err);
}

static void a_secret_is_the_line_of_its_file(void **state)
{
    char secret[SECRET_SIZE];
    struct err err = {0};
    static const char *const texts[] = {"0123456789abcdef", "0123456789abcdef\n",
                                        "0123456789abcdef\r\n\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_ok(read_text(*state, texts[i], strlen(texts[i]), secret, &err), &err);
        assert_string_equal(secret, "0123456789abcdef");
    }
    char longest[SECRET_SIZE];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_ok(read_text(*state, longest, sizeof(longest) - 1, secret, &err), &err);
    assert_string_equal(secret, longest);
}

static void what_is_no_secret_is_rejected_and_not_shown(void **state)
{
    char secret[SECRET_SIZE] = "unchanged";
    char long_text[2 * SECRET_SIZE];
    memset(long_text, 'x', sizeof(long_text));
    const struct {
        const char *text;
        size_t size;
        const char *fault;
    } cases[] = {
        {"", 0, "one line"},
        {"hunter2", 7, "one line"},
        {"0123456789abcdef\nsecond-line", 28, "one line"},
        {"0123456789 bcdef", 16, "character 11"},
        {"0123456789\0bcdef", 16, "one line"},
        {"0123456789\xC3\xA9 bcdef", 18, "character 11"},
        {long_text, SECRET_SIZE, "one line"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = {0};
        assert_int_equal(read_text(*state, cases[i].text, cases[i].size, secret, &err),
                         ERR_INVALID);
        assert_holds(err.text, cases[i].fault);
        assert_null(strstr(err.text, "hunter2"));
    }
    assert_string_equal(secret, "unchanged");
    struct err err = {0};
    assert_int_equal(secret_read("/nonexistent/secret", secret, &err), ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_secret_is_the_line_of_its_file),
        test_with_directory(what_is_no_secret_is_rejected_and_not_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
