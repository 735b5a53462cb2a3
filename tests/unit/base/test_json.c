#include "base/json.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/support/test.h"

static void check_refused(const char *text, int code, const char *part)
{
    struct err err = {0};
    json_t *value = NULL;
    assert_int_equal(json_parse(text, strlen(text), &value, &err), code);
    assert_null(value);
    assert_holds(err.text, part);
}

static void a_text_reads_and_writes_back_in_its_order(void **state)
{
    (void)state;
    static const char text[] = "{\"z\":[1,-2,0.5,true,null],\"a\":{\"text\":\"\xC3\xA9 "
                               "\\\"x\\\"\"},\"m\":9223372036854775807}";
    struct err err = {0};
    json_auto_t *value = NULL;
    assert_ok(json_parse(text, sizeof(text) - 1, &value, &err), &err);
    BUF_AUTO struct buf out;
    buf_init(&out, 1000);
    assert_ok(json_write(value, &out, &err), &err);
    assert_string_equal(out.data, text);
}

static void a_scalar_is_a_text_too(void **state)
{
    (void)state;
    struct err err = {0};
    json_auto_t *value = NULL;
    assert_ok(json_parse(" 17 ", 4, &value, &err), &err);
    assert_int_equal(json_integer_value(value), 17);
    BUF_AUTO struct buf out;
    buf_init(&out, 10);
    assert_ok(json_write(value, &out, &err), &err);
    assert_string_equal(out.data, "17");
}

static void reals_come_back_bit_for_bit(void **state)
{
    (void)state;
    static const double numbers[] = {
        0.1, 1.0 / 3, 1e-300, 1.7976931348623157e308, 5e-324, 0.00392156862745098, -0.0};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct err err = {0};
        json_auto_t *value = json_real(numbers[i]);
        BUF_AUTO struct buf out;
        buf_init(&out, 100);
        assert_ok(json_write(value, &out, &err), &err);
        json_auto_t *again = NULL;
        assert_ok(json_parse(out.data, out.size, &again, &err), &err);
        double number = json_real_value(again);
        assert_memory_equal(&number, &numbers[i], sizeof(number));
    }
}

static void reals_are_written_with_the_fewest_digits(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } reals[] = {
        {0.9, "0.9"},
        {1, "1.0"},
        {-0.0, "-0.0"},
        {0.1 + 0.2, "0.30000000000000004"},
        {5.551115123125783e-17, "5.551115123125783e-17"},
        {0.00001, "1e-5"},
        {1e22, "1e22"},
        {98765432109876544, "98765432109876544.0"}, /* with fewer digits it would be longer */
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e308"},
    };
    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
        struct err err = {0};
        json_auto_t *value = json_real(reals[i].value);
        BUF_AUTO struct buf out;
        buf_init(&out, 100);
        assert_ok(json_write(value, &out, &err), &err);
        assert_string_equal(out.data, reals[i].text);
        assert_int_equal(out.size, strlen(reals[i].text));
    }
}

static void only_reals_are_shortened(void **state)
{
    (void)state;
    static const char text[] =
        "{\"0.90000000000000002\":[\"1.50000000000000000\",\"a\\\"\\\\\",0.25,-2.0,true,"
        "false,null,12345678901234567],\"e\":2e-7}";
    struct err err = {0};
    json_auto_t *value = NULL;
    assert_ok(json_parse(text, sizeof(text) - 1, &value, &err), &err);
    BUF_AUTO struct buf out;
    buf_init(&out, 1000);
    assert_ok(buf_append(&out, "0.10000000000000001 ", 20, &err), &err);
    assert_ok(json_write(value, &out, &err), &err);
    assert_string_equal(out.data + 20, text);
    assert_memory_equal(out.data, "0.10000000000000001 ", 20);
}

static void lines_for_people_have_the_same_numbers(void **state)
{
    (void)state;
    struct err err = {0};
    json_auto_t *value = json_pack("{s:f,s:[s]}", "momentum", 0.9, "words", "\xC3\xA9");
    BUF_AUTO struct buf out;
    buf_init(&out, 1000);
    assert_ok(json_write_lines(value, &out, &err), &err);
    assert_string_equal(out.data,
                        "{\n  \"momentum\": 0.9,\n  \"words\": [\n    \"\\u00E9\"\n  ]\n}");
}

static void non_finite_numbers_are_written_as_null(void **state)
{
    (void)state;
    char text[JSON_NUMBER_SIZE];
    json_number(NAN, text);
    assert_string_equal(text, "null");
    json_number(-INFINITY, text);
    assert_string_equal(text, "null");
    json_number(-DBL_MAX, text);
    assert_string_equal(text, "-1.7976931348623157e308");
}

static void faulty_texts_are_refused_with_line_and_column(void **state)
{
    (void)state;
    check_refused("", ERR_FORMAT, "empty");
    check_refused("{\"a\":1,\n \"b\":}", ERR_FORMAT, "line 2 column 6");
    check_refused("{\"a\":1,\"a\":2}", ERR_FORMAT, "duplicate");
    check_refused("{} {}", ERR_FORMAT, "end of file expected");
    check_refused("{\"a\":99999999999999999999}", ERR_FORMAT, "big");
    check_refused("{\"a\":1e999}", ERR_FORMAT, "overflow");
    check_refused("{\"a\":NaN}", ERR_FORMAT, "line 1");
    check_refused("\"\xFF\"", ERR_FORMAT, "unable to decode byte 0xff");
    check_refused("\"\\u0000\"", ERR_FORMAT, "line 1");
    check_refused("[1,]", ERR_FORMAT, "line 1");
}

static void bytes_after_a_nul_are_rejected(void **state)
{
    (void)state;
    struct err err = {0};
    json_t *value = NULL;
    assert_int_equal(json_parse("{}\0{}", 5, &value, &err), ERR_FORMAT);
    assert_null(value);
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    char text[2 * JSON_DEPTH_MAX + 3];
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    struct err err = {0};
    json_auto_t *value = NULL;
    assert_ok(json_parse(text, (size_t)2 * JSON_DEPTH_MAX, &value, &err), &err);
    memset(text, '[', JSON_DEPTH_MAX + 1);
    memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    text[2 * JSON_DEPTH_MAX + 2] = '\0';
    check_refused(text, ERR_LIMIT, "32 levels");
}

static void brackets_inside_texts_are_not_nesting(void **state)
{
    (void)state;
    char text[202] = "\"";
    memset(text + 1, '[', 198);
    memcpy(text + 150, "\\\"\\\\", 4);
    memcpy(text + 199, "\"", 2);
    struct err err = {0};
    json_auto_t *value = NULL;
    assert_ok(json_parse(text, strlen(text), &value, &err), &err);
}

static void a_buffer_that_is_too_small_is_left_as_it_was(void **state)
{
    (void)state;
    struct err err = {0};
    json_auto_t *value = json_pack("[s]", "a text that does not fit");
    BUF_AUTO struct buf out;
    buf_init(&out, 20);
    assert_ok(buf_append(&out, "head ", 5, &err), &err);
    assert_int_equal(json_write(value, &out, &err), ERR_LIMIT);
    assert_string_equal(out.data, "head ");
    assert_int_equal(out.size, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_reads_and_writes_back_in_its_order),
        cmocka_unit_test(a_scalar_is_a_text_too),
        cmocka_unit_test(reals_come_back_bit_for_bit),
        cmocka_unit_test(reals_are_written_with_the_fewest_digits),
        cmocka_unit_test(only_reals_are_shortened),
        cmocka_unit_test(lines_for_people_have_the_same_numbers),
        cmocka_unit_test(non_finite_numbers_are_written_as_null),
        cmocka_unit_test(faulty_texts_are_refused_with_line_and_column),
        cmocka_unit_test(bytes_after_a_nul_are_rejected),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(brackets_inside_texts_are_not_nesting),
        cmocka_unit_test(a_buffer_that_is_too_small_is_left_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
