#include "base/exposition.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/process_metrics.h"
#include "tests/support/test.h"

static void families_have_help_type_and_samples(void **state)
{
    (void)state;
    BUF_AUTO struct buf text;
    buf_init(&text, 4096);
    struct exposition out = {.out = &text};
    const struct exposition_label labels[] = {{"id", "dev_1"}, {"name", "pi"}};
    exposition_single(&out, "up_seconds", EXPOSITION_GAUGE, "Seconds.", 1.5);
    exposition_family(&out, "sent_total", EXPOSITION_COUNTER, "Bytes sent.");
    exposition_sample(&out, "", labels, 2, 9007199254740991.0);
    exposition_sample(&out, "", labels, 1, 0);
    exposition_family(&out, "phase_seconds", EXPOSITION_SUMMARY, "Phases.");
    exposition_sample(&out, "_sum", labels, 1, 0.25);
    exposition_sample(&out, "_count", labels, 1, 2);
    assert_ok(out.rc, &out.err);
    assert_string_equal(text.data, "# HELP up_seconds Seconds.\n"
                                   "# TYPE up_seconds gauge\n"
                                   "up_seconds 1.5\n"
                                   "# HELP sent_total Bytes sent.\n"
                                   "# TYPE sent_total counter\n"
                                   "sent_total{id=\"dev_1\",name=\"pi\"} 9.00719925474099e+15\n"
                                   "sent_total{id=\"dev_1\"} 0\n"
                                   "# HELP phase_seconds Phases.\n"
                                   "# TYPE phase_seconds summary\n"
                                   "phase_seconds_sum{id=\"dev_1\"} 0.25\n"
                                   "phase_seconds_count{id=\"dev_1\"} 2\n");
}

static void labels_are_escaped_and_made_utf8(void **state)
{
    (void)state;
    BUF_AUTO struct buf text;
    buf_init(&text, 4096);
    struct exposition out = {.out = &text};
    const struct exposition_label label = {"name", "a\"b\\c\nd\xC3\xA9\xFF}"};
    exposition_family(&out, "x", EXPOSITION_GAUGE, "X.");
    exposition_sample(&out, "", &label, 1, 1);
    assert_holds(text.data, "x{name=\"a\\\"b\\\\c\\nd\xC3\xA9?}\"} 1\n");
}

static void values_that_are_no_numbers_have_their_names(void **state)
{
    (void)state;
    BUF_AUTO struct buf text;
    buf_init(&text, 4096);
    struct exposition out = {.out = &text};
    exposition_single(&out, "a", EXPOSITION_GAUGE, "A.", NAN);
    exposition_single(&out, "b", EXPOSITION_GAUGE, "B.", INFINITY);
    exposition_single(&out, "c", EXPOSITION_GAUGE, "C.", -INFINITY);
    assert_holds(text.data, "\na NaN\n");
    assert_holds(text.data, "\nb +Inf\n");
    assert_holds(text.data, "\nc -Inf\n");
}

static void a_full_buffer_is_one_error_and_nothing_follows(void **state)
{
    (void)state;
    BUF_AUTO struct buf text;
    buf_init(&text, 40);
    struct exposition out = {.out = &text};
    exposition_single(&out, "a", EXPOSITION_GAUGE, "A.", 1);
    assert_ok(out.rc, &out.err);
    exposition_single(&out, "much_too_long_for_the_buffer", EXPOSITION_GAUGE, "Too long.", 1);
    assert_int_equal(out.rc, ERR_LIMIT);
    const size_t size = text.size;
    exposition_single(&out, "b", EXPOSITION_GAUGE, "", 1);
    assert_int_equal(text.size, size);
}

/* The value of a sample without labels. */
static double value_of(const char *text, const char *name)
{
    char line[128];
    double value = -1;
    (void)snprintf(line, sizeof(line), "\n%s ", name);
    const char *at = strstr(text, line);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(line), "%lf", &value), 1);
    return value;
}

static void a_process_has_memory_time_and_descriptors(void **state)
{
    (void)state;
    BUF_AUTO struct buf text;
    buf_init(&text, 4096);
    struct exposition out = {.out = &text};
    process_metrics_write(&out, 1500);
    assert_ok(out.rc, &out.err);
    assert_true(value_of(text.data, "process_resident_memory_bytes") > 100e3);
    assert_true(value_of(text.data, "process_cpu_seconds_total") >= 0);
    assert_in_range((int)value_of(text.data, "process_open_fds"), 3, 1000);
    assert_true(value_of(text.data, "process_max_fds") >= 3);
    assert_true(value_of(text.data, "process_start_time_seconds") == 1.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_have_help_type_and_samples),
        cmocka_unit_test(labels_are_escaped_and_made_utf8),
        cmocka_unit_test(values_that_are_no_numbers_have_their_names),
        cmocka_unit_test(a_full_buffer_is_one_error_and_nothing_follows),
        cmocka_unit_test(a_process_has_memory_time_and_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
