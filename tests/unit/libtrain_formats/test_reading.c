#include "libtrain/formats/reading.h"

#include <string.h>

#include "tests/support/test.h"

static void fails(const char *text, const char *part)
{
    struct reading reading = {.text = -1};
    struct err err = {0};
    assert_int_not_equal(reading_parse(text, &reading, &err), 0);
    assert_holds(err.text, part);
    assert_int_equal(reading.text, -1);
}

static void nothing_said_is_recognised_by_content(void **state)
{
    (void)state;
    struct reading reading = reading_default;
    struct err err = {0};
    assert_ok(reading_check(&reading, &err), &err);
    assert_int_equal(reading.kind, READING_RECOGNISED);
}

static void a_text_says_how_many_bytes_a_sample_has(void **state)
{
    (void)state;
    struct reading reading;
    struct err err = {0};
    assert_ok(reading_parse("text=64", &reading, &err), &err);
    assert_int_equal(reading.kind, READING_TEXT);
    assert_int_equal(reading.text, 64);
}

static void faults_name_the_parameter(void **state)
{
    (void)state;
    fails("text=0", "'text': '0' is out of range; expected 1 to 32767");
    fails("text=32768", "'text': '32768' is out of range");
    fails("text=many", "'text': 'many' is not a whole number");
    fails("text=1,text=1", "'text' is there twice");
    fails("txt=1", "'txt' is unknown; did you mean 'text'?");
    fails("force=1", "'force' is unknown");
    fails("text", "'text': expected NAME=VALUE");
    fails("", "'': expected NAME=VALUE");
    char many[600];
    memset(many, 'x', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    fails(many, "more than 511 characters");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_said_is_recognised_by_content),
        cmocka_unit_test(a_text_says_how_many_bytes_a_sample_has),
        cmocka_unit_test(faults_name_the_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
