#include "base/utf8.h"

#include <string.h>

#include "tests/support/test.h"

static void valid_sequences_have_their_length(void **state)
{
    (void)state;
    static const char *const good[] = {
        "a",
        "\x7F",
        "\xC2\x80",
        "\xDF\xBF",
        "\xE0\xA0\x80",
        "\xED\x9F\xBF",
        "\xEE\x80\x80",
        "\xEF\xBF\xBF",
        "\xF0\x90\x80\x80",
        "\xF4\x8F\xBF\xBF",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(utf8_sequence(good[i], strlen(good[i])), strlen(good[i]));
    }
    assert_int_equal(utf8_sequence("", 0), 0);
    assert_int_equal(utf8_sequence("", 1), 1);
}

static void invalid_sequences_have_length_zero(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",             /* a continuation alone */
        "\xC0\xAF",         /* overlong */
        "\xC1\xBF",         /* overlong */
        "\xE0\x9F\xBF",     /* overlong */
        "\xF0\x8F\xBF\xBF", /* overlong */
        "\xED\xA0\x80",     /* a surrogate */
        "\xF4\x90\x80\x80", /* above U+10FFFF */
        "\xF5\x80\x80\x80",
        "\xFF",
        "\xC3",     /* cut short */
        "\xE2\x82", /* cut short */
        "\xC3(",    /* not a continuation */
        "\xE2\x82(",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(utf8_sequence(bad[i], strlen(bad[i])), 0);
    }
    assert_int_equal(utf8_sequence("\xE2\x82\xAC", 2), 0);
}

static void repair_keeps_valid_text(void **state)
{
    (void)state;
    char text[] = "a\tb\xC3\xA9\xFF\xE2\x82.";
    utf8_repair(text);
    assert_string_equal(text, "a\tb\xC3\xA9???.");
    utf8_repair_line(text);
    assert_string_equal(text, "a?b\xC3\xA9???.");
}

/* U+009B is the one-character form of "ESC [". */
static void repair_replaces_control_characters_of_two_bytes(void **state)
{
    (void)state;
    char text[] = "a\xC2\x9B"
                  "2J\xC2\x80\xC2\x9F\xC2\xA0";
    utf8_repair(text);
    assert_string_equal(text, "a\xC2\x9B"
                              "2J\xC2\x80\xC2\x9F\xC2\xA0");
    utf8_repair_line(text);
    assert_string_equal(text, "a??2J????\xC2\xA0");
}

static void truncated_text_ends_with_dots_within_the_capacity(void **state)
{
    (void)state;
    char text[9] = "abcdefgh";
    utf8_mark_cut(text, sizeof(text));
    assert_string_equal(text, "abcde...");
    char wide[9] = "abcd\xC3\xA9gh";
    utf8_mark_cut(wide, sizeof(wide));
    assert_string_equal(wide, "abcd...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_sequences_have_their_length),
        cmocka_unit_test(invalid_sequences_have_length_zero),
        cmocka_unit_test(repair_keeps_valid_text),
        cmocka_unit_test(repair_replaces_control_characters_of_two_bytes),
        cmocka_unit_test(truncated_text_ends_with_dots_within_the_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
