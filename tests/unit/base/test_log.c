#include "base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "tests/support/test.h"

/* stderr goes to a file of the test's directory between the two calls. */
static int redirect(const char *directory, int *saved)
{
    struct test_path path = test_path_in(directory, "stderr");
    FD_AUTO int fd = open(path.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    *saved = dup(STDERR_FILENO);
    return fd >= 0 && *saved >= 0 && dup2(fd, STDERR_FILENO) >= 0 ? 0 : -1;
}

static void restore(const char *directory, int saved, struct buf *out)
{
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    struct err err = {0};
    assert_ok(file_read(test_path_in(directory, "stderr").text, out, &err), &err);
}

static void an_event_is_one_line_with_time_level_and_name_first(void **state)
{
    int saved;
    BUF_AUTO struct buf out;
    buf_init(&out, 10000);
    assert_int_equal(redirect(*state, &saved), 0);
    log_info("device_lost", "device=%s silent_ms=%d", "dev_1", 5012);
    log_warn("plain", "%s", "");
    log_error("broken", "text=%s", "two\nlines");
    restore(*state, saved, &out);
    char *line = out.data;
    assert_memory_equal(line, "time=20", 7);
    assert_holds(line, "Z level=info event=device_lost device=dev_1 silent_ms=5012\n");
    assert_holds(line, " level=warn event=plain \n");
    assert_holds(line, " level=error event=broken text=two?lines\n");
}

static void events_below_the_level_are_dropped(void **state)
{
    int saved;
    BUF_AUTO struct buf out;
    buf_init(&out, 10000);
    assert_int_equal(redirect(*state, &saved), 0);
    log_debug("hidden", "a=1");
    log_set_level(LOG_LEVEL_DEBUG);
    log_debug("shown", "a=1");
    log_set_level(LOG_LEVEL_ERROR);
    log_warn("hidden", "a=1");
    log_set_level(LOG_LEVEL_INFO);
    restore(*state, saved, &out);
    assert_null(strstr(out.data, "hidden"));
    assert_holds(out.data, "event=shown a=1\n");
}

static void debug_shows_all_events_until_it_is_off(void **state)
{
    int saved;
    BUF_AUTO struct buf out;
    buf_init(&out, 10000);
    assert_int_equal(redirect(*state, &saved), 0);
    log_set_level(LOG_LEVEL_WARN);
    log_set_debug(true);
    log_debug("shown", "a=1");
    log_set_debug(false);
    log_info("hidden", "a=1");
    log_warn("warned", "a=1");
    log_set_level(LOG_LEVEL_INFO);
    restore(*state, saved, &out);
    assert_null(strstr(out.data, "hidden"));
    assert_holds(out.data, "event=shown a=1\n");
    assert_holds(out.data, "event=warned a=1\n");
}

static void json_is_the_same_line_as_one_object(void **state)
{
    int saved;
    BUF_AUTO struct buf out;
    buf_init(&out, 10000);
    assert_int_equal(redirect(*state, &saved), 0);
    log_set_format(LOG_FORMAT_JSON);
    log_info("device_lost", "device=%s silent_ms=%d error=%s", "dev_1", 5012,
             log_quote("two\nlines \xFF").text);
    log_set_format(LOG_FORMAT_TEXT);
    restore(*state, saved, &out);
    assert_memory_equal(out.data, "{\"time\":\"20", 11);
    assert_holds(out.data, "Z\",\"level\":\"info\",\"event\":\"device_lost\",\"device\":\"dev_1\","
                           "\"silent_ms\":5012,\"error\":\"two\\nlines ?\"}\n");
}

static void formats_are_read_by_name(void **state)
{
    (void)state;
    struct err err = {0};
    enum log_format format = LOG_FORMAT_TEXT;
    assert_ok(log_format_parse("json", &format, &err), &err);
    assert_int_equal(format, LOG_FORMAT_JSON);
    assert_ok(log_format_parse("text", &format, &err), &err);
    assert_int_equal(format, LOG_FORMAT_TEXT);
    assert_int_equal(log_format_parse("xml", &format, &err), ERR_INVALID);
    assert_holds(err.text, "'xml' is not a log format; expected text or json");
}

static void a_long_line_is_truncated_with_dots(void **state)
{
    int saved;
    char text[10000];
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    BUF_AUTO struct buf out;
    buf_init(&out, 20000);
    assert_int_equal(redirect(*state, &saved), 0);
    log_info("long", "text=%s", text);
    restore(*state, saved, &out);
    assert_in_range(out.size, 1000, 4096);
    assert_string_equal(out.data + out.size - 5, "a...\n");
}

static void levels_are_read_by_name(void **state)
{
    (void)state;
    struct err err = {0};
    enum log_level level = LOG_LEVEL_INFO;
    assert_ok(log_level_parse("error", &level, &err), &err);
    assert_int_equal(level, LOG_LEVEL_ERROR);
    assert_ok(log_level_parse("debug", &level, &err), &err);
    assert_int_equal(level, LOG_LEVEL_DEBUG);
    assert_int_equal(log_level_parse("loud", &level, &err), ERR_INVALID);
    assert_holds(err.text, "'loud' is not a log level");
}

static void values_are_quoted_where_logfmt_needs_it(void **state)
{
    (void)state;
    assert_string_equal(log_quote("plain-1.5/x").text, "plain-1.5/x");
    assert_string_equal(log_quote("").text, "\"\"");
    assert_string_equal(log_quote("two words").text, "\"two words\"");
    assert_string_equal(log_quote("a=b").text, "\"a=b\"");
    assert_string_equal(log_quote("say \"x\\y\"").text, "\"say \\\"x\\\\y\\\"\"");
    assert_string_equal(log_quote("a\nb\tc\x7F").text, "\"a\\nb\\u0009c\\u007f\"");
    assert_string_equal(log_quote("\xC3\xA9\xFF").text, "\xC3\xA9?");
}

static void a_long_value_is_truncated_inside_its_quotes(void **state)
{
    (void)state;
    char text[3 * LOG_QUOTE_MAX];
    memset(text, '\x01', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    struct log_quoted quoted = log_quote(text);
    size_t size = strlen(quoted.text);
    assert_in_range(size, LOG_QUOTE_MAX - 20, LOG_QUOTE_MAX - 1);
    assert_string_equal(quoted.text + size - 5, "1...\"");
    memset(text, 'a', sizeof(text) - 1);
    quoted = log_quote(text);
    assert_string_equal(quoted.text + strlen(quoted.text) - 4, "a...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(an_event_is_one_line_with_time_level_and_name_first),
        test_with_directory(events_below_the_level_are_dropped),
        test_with_directory(debug_shows_all_events_until_it_is_off),
        test_with_directory(json_is_the_same_line_as_one_object),
        cmocka_unit_test(formats_are_read_by_name),
        test_with_directory(a_long_line_is_truncated_with_dots),
        cmocka_unit_test(levels_are_read_by_name),
        cmocka_unit_test(values_are_quoted_where_logfmt_needs_it),
        cmocka_unit_test(a_long_value_is_truncated_inside_its_quotes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
