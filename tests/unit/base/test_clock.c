#include "base/clock.h"

#include "tests/support/test.h"

static void both_clocks_tell_the_same_time(void **state)
{
    (void)state;
    int64_t before_ms = clock_now_ms();
    double seconds = clock_now_seconds();
    int64_t after_ms = clock_now_ms();
    assert_true(before_ms <= (int64_t)(seconds * 1000) + 1 &&
                (int64_t)(seconds * 1000) <= after_ms + 1);
    assert_true(clock_wall_ms() > INT64_C(1700000000000));
}

static void check_format(int64_t wall_ms, const char *expected)
{
    char text[CLOCK_RFC3339_SIZE];
    clock_format_rfc3339(wall_ms, text);
    assert_string_equal(text, expected);
}

static void times_are_written_in_utc_with_milliseconds(void **state)
{
    (void)state;
    check_format(0, "");
    check_format(1, "1970-01-01T00:00:00.001Z");
    check_format(-1, "1969-12-31T23:59:59.999Z");
    check_format(1769860800123, "2026-01-31T12:00:00.123Z");
    check_format(951782400000, "2000-02-29T00:00:00.000Z");
}

static void times_outside_the_range_are_clamped(void **state)
{
    (void)state;
    check_format(INT64_MAX, "9999-12-31T23:59:59.999Z");
    check_format(INT64_MIN, "0001-01-01T00:00:00.000Z");
}

static void check_parse(const char *text, int64_t expected)
{
    struct err err = {0};
    int64_t wall_ms = -7;
    assert_ok(clock_parse_rfc3339(text, &wall_ms, &err), &err);
    assert_int_equal(wall_ms, expected);
}

static void times_are_read_with_zones_and_fractions(void **state)
{
    (void)state;
    check_parse("2026-01-31T12:00:00Z", 1769860800000);
    check_parse("2026-01-31T12:00:00.123Z", 1769860800123);
    check_parse("2026-01-31T12:00:00.1Z", 1769860800100);
    check_parse("2026-01-31T12:00:00.123999999Z", 1769860800123);
    check_parse("2026-01-31T13:30:00+01:30", 1769860800000);
    check_parse("2026-01-31T10:00:00-02:00", 1769860800000);
    check_parse("1970-01-01T00:00:00Z", 0);
    check_parse("0001-01-01T00:00:00Z", -62135596800000);
}

static void malformed_times_are_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "now",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00:00.",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00.1234567890Z",
        "2026-01-31T12:00:00Zx",
        "2026-01-31T12:00:00+0100",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:60Z",
        "2026-02-29T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-00-01T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "26-01-31T12:00:00Z",
        "2026-01-31t12:00:00z",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = {0};
        int64_t wall_ms = 42;
        assert_int_equal(clock_parse_rfc3339(bad[i], &wall_ms, &err), ERR_INVALID);
        assert_int_equal(wall_ms, 42);
        assert_holds(err.text, bad[i]);
    }
}

static void a_written_value_reads_back_unchanged(void **state)
{
    (void)state;
    for (int64_t wall_ms = -62135596800000; wall_ms < INT64_C(253402300799999);
         wall_ms += INT64_C(86400000017) * 37) {
        char text[CLOCK_RFC3339_SIZE];
        clock_format_rfc3339(wall_ms, text);
        check_parse(text, wall_ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_clocks_tell_the_same_time),
        cmocka_unit_test(times_are_written_in_utc_with_milliseconds),
        cmocka_unit_test(times_outside_the_range_are_clamped),
        cmocka_unit_test(times_are_read_with_zones_and_fractions),
        cmocka_unit_test(malformed_times_are_rejected),
        cmocka_unit_test(a_written_value_reads_back_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
