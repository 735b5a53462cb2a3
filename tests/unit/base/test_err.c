#include "base/err.h"

#include <errno.h>
#include <string.h>

#include "tests/support/test.h"

static void setting_returns_the_code_and_keeps_the_text(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(err_set(&err, ERR_IO, "open '%s': %s", "x", "No such file"), ERR_IO);
    assert_int_equal(err.code, ERR_IO);
    assert_string_equal(err.text, "open 'x': No such file");
    assert_int_equal(err_set(NULL, ERR_LIMIT, "no receiver"), ERR_LIMIT);
}

static void wrapping_prefixes_the_text_of_the_caller(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(err_set(&err, ERR_FORMAT, "truncated"), ERR_FORMAT);
    assert_int_equal(err_wrap(&err, "load %s", "checkpoint"), ERR_FORMAT);
    assert_int_equal(err_wrap(&err, "job %d", 7), ERR_FORMAT);
    assert_string_equal(err.text, "job 7: load checkpoint: truncated");
}

static void an_error_may_be_part_of_its_own_text(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(err_set(&err, ERR_IO, "inner"), ERR_IO);
    assert_int_equal(err_set(&err, ERR_STATE, "outer (%s)", err.text), ERR_STATE);
    assert_string_equal(err.text, "outer (inner)");
}

static void a_text_that_does_not_fit_is_truncated_with_dots(void **state)
{
    (void)state;
    char text[2 * ERR_TEXT_MAX];
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    struct err err = {0};
    assert_int_equal(err_set(&err, ERR_INVALID, "%s", text), ERR_INVALID);
    assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
    assert_string_equal(err.text + ERR_TEXT_MAX - 5, "a...");
    assert_int_equal(err_wrap(&err, "b"), ERR_INVALID);
    assert_memory_equal(err.text, "b: aa", 5);
    assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
}

static void a_text_that_fits_exactly_is_not_truncated(void **state)
{
    (void)state;
    char text[ERR_TEXT_MAX];
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    struct err err = {0};
    assert_int_equal(err_set(&err, ERR_INVALID, "%s", text), ERR_INVALID);
    assert_string_equal(err.text, text);
}

static void truncation_never_splits_a_character(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        char text[2 * ERR_TEXT_MAX] = "xxxx";
        size_t size = shift;
        while (size + 4 < sizeof(text)) {
            memcpy(text + size, "\xF0\x9F\x98\x80", 5);
            size += 4;
        }
        struct err err = {0};
        assert_int_equal(err_set(&err, ERR_INVALID, "%s", text), ERR_INVALID);
        size_t length = strlen(err.text);
        assert_string_equal(err.text + length - 3, "...");
        assert_int_equal((length - 3 - shift) % 4, 0);
        assert_null(strchr(err.text, '?'));
    }
}

static void the_text_is_always_one_line_of_utf8(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(err_set(&err, ERR_INVALID, "a\nb\x7F\xFF\xC3\xA9"), ERR_INVALID);
    assert_string_equal(err.text, "a?b??\xC3\xA9");
}

static void system_reasons_become_codes(void **state)
{
    (void)state;
    assert_int_equal(err_from_errno(ENOSPC), ERR_FULL);
    assert_int_equal(err_from_errno(EDQUOT), ERR_FULL);
    assert_int_equal(err_from_errno(ENOENT), ERR_NOT_FOUND);
    assert_int_equal(err_from_errno(ENOMEM), ERR_MEMORY);
    assert_int_equal(err_from_errno(EACCES), ERR_IO);
}

static void every_code_has_its_own_name(void **state)
{
    (void)state;
    assert_string_equal(err_name(0), "ok");
    assert_string_equal(err_name(ERR_INVALID), "invalid");
    assert_string_equal(err_name(ERR_NOT_FOUND), "not_found");
    assert_string_equal(err_name(ERR_UNSUPPORTED), "unsupported");
    assert_string_equal(err_name(1), "unknown");
    assert_string_equal(err_name(ERR_UNSUPPORTED - 1), "unknown");
    assert_string_equal(err_name(INT32_MIN), "unknown");
    for (int a = 0; a >= ERR_UNSUPPORTED; a--) {
        for (int b = a - 1; b >= ERR_UNSUPPORTED; b--) {
            assert_string_not_equal(err_name(a), err_name(b));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setting_returns_the_code_and_keeps_the_text),
        cmocka_unit_test(wrapping_prefixes_the_text_of_the_caller),
        cmocka_unit_test(an_error_may_be_part_of_its_own_text),
        cmocka_unit_test(a_text_that_does_not_fit_is_truncated_with_dots),
        cmocka_unit_test(a_text_that_fits_exactly_is_not_truncated),
        cmocka_unit_test(truncation_never_splits_a_character),
        cmocka_unit_test(the_text_is_always_one_line_of_utf8),
        cmocka_unit_test(system_reasons_become_codes),
        cmocka_unit_test(every_code_has_its_own_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
