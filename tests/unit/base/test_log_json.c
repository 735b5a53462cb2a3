#include "base/log_json.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "tests/support/test.h"

/* The line of these pairs, parsed: whatever it is, it is one JSON object. */
static json_t *parsed(const char *format, const char *pairs)
{
    static char line[LOG_JSON_SIZE(9000)];
    const size_t size =
        log_json_write("2026-01-02T03:04:05.678Z", "info", "it_happened", format, pairs, line);
    assert_int_equal(size, strlen(line));
    assert_true(size < LOG_JSON_SIZE(strlen(pairs)));
    json_error_t error;
    json_t *value = json_loads(line, JSON_REJECT_DUPLICATES, &error);
    if (!value) {
        fail_msg("%s: %s", error.text, line);
    }
    return value;
}

static void assert_text(const json_t *line, const char *key, const char *expected)
{
    const char *text = json_string_value(json_object_get(line, key));
    if (!text) {
        fail_msg("%s is no text", key);
    }
    assert_string_equal(text, expected);
}

static void a_line_has_time_level_event_and_its_pairs(void **state)
{
    (void)state;
    json_t *line = parsed("device=%s silent_ms=%d", "device=dev_1 silent_ms=5012");
    assert_text(line, "time", "2026-01-02T03:04:05.678Z");
    assert_text(line, "level", "info");
    assert_text(line, "event", "it_happened");
    assert_text(line, "device", "dev_1");
    assert_int_equal(json_integer_value(json_object_get(line, "silent_ms")), 5012);
    assert_int_equal(json_object_size(line), 5);
    json_decref(line);
    line = parsed("", "");
    assert_int_equal(json_object_size(line), 3);
    json_decref(line);
}

static void the_format_decides_what_is_a_number(void **state)
{
    (void)state;
    json_t *line = parsed("name=%s seconds=%.3f count=%zu units=%d-%d big=%lld",
                          "name=12 seconds=-1.500 count=7 units=2-5 big=9007199254740993");
    assert_text(line, "name", "12");
    assert_text(line, "units", "2-5");
    assert_true(json_is_real(json_object_get(line, "seconds")));
    assert_true(json_number_value(json_object_get(line, "seconds")) == -1.5);
    assert_int_equal(json_integer_value(json_object_get(line, "count")), 7);
    assert_int_equal(json_integer_value(json_object_get(line, "big")), 9007199254740993);
    json_decref(line);
    line = parsed("loss=%g rate=%f", "loss=nan rate=-inf");
    assert_text(line, "loss", "nan");
    assert_text(line, "rate", "-inf");
    json_decref(line);
}

static void a_truncated_number_is_a_text(void **state)
{
    (void)state;
    json_t *line = parsed("count=%zu", "count=12...");
    assert_text(line, "count", "12...");
    json_decref(line);
    line = parsed("count=%03d", "count=007");
    assert_text(line, "count", "007");
    json_decref(line);
}

static void quoted_values_keep_their_text(void **state)
{
    (void)state;
    char pairs[2 * LOG_QUOTE_MAX];
    const char *text = "say \"x\\y\"\nand a=b\x01";
    (void)snprintf(pairs, sizeof(pairs), "error=%s path=%s", log_quote(text).text, "/a/b");
    json_t *line = parsed("error=%s path=%s", pairs);
    assert_text(line, "error", text);
    assert_text(line, "path", "/a/b");
    json_decref(line);
}

static void careless_text_is_still_one_object(void **state)
{
    (void)state;
    static const struct {
        const char *pairs, *key, *value;
    } cases[] = {
        {"text=two words of text other=1", "text", "two words of text"},
        {"no key at all", "text", "no key at all"},
        {"error=\"never closed", "error", "never closed"},
        {"error=\"ends in a backslash\\", "error", "ends in a backslash\\"},
        {"error=\"bad \\q escape\"", "error", "bad \\q escape"},
        {"error=\"bad \\u12 escape\"", "error", "bad \\u12 escape"},
        {"path=C:\\x\"y", "path", "C:\\x\"y"},
        {"empty= next=1", "empty", ""},
        {"  spaced=1  ", "spaced", "1  "},
        {"=", "text", "="},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *line = parsed("text=%s", cases[i].pairs);
        assert_text(line, cases[i].key, cases[i].value);
        json_decref(line);
    }
}

static void a_line_of_nothing_but_escapes_fits(void **state)
{
    (void)state;
    char pairs[8001];
    memset(pairs, '\\', sizeof(pairs) - 1);
    pairs[sizeof(pairs) - 1] = '\0';
    json_decref(parsed("", pairs));
    pairs[0] = 'a';
    pairs[1] = '=';
    pairs[2] = '"';
    json_decref(parsed("a=%s", pairs));
    static const char *const pieces[] = {"a= ",      "ab= ",   "\"",   "\"\" ",
                                         "a=\"\"x ", "a=\"\"", "x a= "};
    static char line[LOG_JSON_SIZE(sizeof(pairs) - 1)];
    for (size_t piece = 0; piece < sizeof(pieces) / sizeof(pieces[0]); piece++) {
        const size_t size = strlen(pieces[piece]);
        for (size_t i = 0; i < sizeof(pairs) - 1; i++) {
            pairs[i] = pieces[piece][i % size];
        }
        assert_true(log_json_write("t", "info", "e", "", pairs, line) < sizeof(line));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_event_and_its_pairs),
        cmocka_unit_test(the_format_decides_what_is_a_number),
        cmocka_unit_test(a_truncated_number_is_a_text),
        cmocka_unit_test(quoted_values_keep_their_text),
        cmocka_unit_test(careless_text_is_still_one_object),
        cmocka_unit_test(a_line_of_nothing_but_escapes_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
