#include "base/parse.h"

#include <string.h>

#include "tests/support/test.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void whole_numbers_within_the_range_are_read(void **state)
{
    (void)state;
    int64_t value = 0;
    assert_ok(parse_i64("-12", -20, 20, &value, NULL), NULL);
    assert_int_equal(value, -12);
    assert_ok(parse_i64("9223372036854775807", INT64_MIN, INT64_MAX, &value, NULL), NULL);
    assert_int_equal(value, INT64_MAX);
    assert_ok(parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &value, NULL), NULL);
    assert_int_equal(value, INT64_MIN);
}

static void malformed_integers_and_integers_out_of_range_are_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.0",
                                      "0x10",
                                      "1e3",
                                      "11",
                                      "-1",
                                      "9223372036854775808",
                                      "99999999999999999999"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct err err = {0};
        int64_t value = 42;
        assert_int_equal(parse_i64(bad[i], 0, 10, &value, &err), ERR_INVALID);
        assert_int_equal(value, 42);
        assert_holds(err.text, bad[i]);
    }
    struct err err = {0};
    int64_t value;
    assert_int_equal(parse_i64("11", 0, 10, &value, &err), ERR_INVALID);
    assert_string_equal(err.text, "'11' is out of range; expected 0 to 10");
}

static void numbers_within_the_range_are_read(void **state)
{
    (void)state;
    double value[3] = {0};
    assert_ok(parse_double("-1.5", -2, 2, &value[0], NULL), NULL);
    assert_ok(parse_double("2e-3", 0, 1, &value[1], NULL), NULL);
    assert_ok(parse_double("7", 0, 10, &value[2], NULL), NULL);
    assert_close(value, ((const double[]){-1.5, 2e-3, 7}), 3, 0);
}

static void malformed_numbers_and_numbers_out_of_range_are_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "x",  "nan", "inf", "-inf", "0x1p3", "1e999",
                                      " 1", "1 ", "1,5", "+1",  "--1",  "1e",    "3"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        double value = 42;
        assert_int_equal(parse_double(bad[i], -2, 2, &value, NULL), ERR_INVALID);
        assert_true(value > 41 && value < 43);
    }
}

static void sizes_have_binary_suffixes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"512", 512},
                {"64K", 65536},
                {"8M", 8388608},
                {"2G", 2147483648},
                {"1T", 1099511627776},
                {"18446744073709551615", UINT64_MAX},
                {"16777215T", UINT64_C(16777215) << 40}};
    for (size_t i = 0; i < COUNT(good); i++) {
        uint64_t bytes = 42;
        assert_ok(parse_size(good[i].text, &bytes, NULL), NULL);
        assert_int_equal(bytes, good[i].bytes);
    }
}

static void malformed_sizes_are_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {"",     "K",  "-1",  "1k",        "1KB",
                                      "1.5G", " 1", "1 K", "16777216T", "18446744073709551616"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct err err = {0};
        uint64_t bytes = 42;
        assert_int_equal(parse_size(bad[i], &bytes, &err), ERR_INVALID);
        assert_int_equal(bytes, 42);
        assert_holds(err.text, bad[i]);
    }
}

static void a_boolean_is_exactly_true_or_false(void **state)
{
    (void)state;
    bool value = false;
    assert_ok(parse_bool("true", &value, NULL), NULL);
    assert_true(value);
    assert_int_equal(parse_bool("yes", &value, NULL), ERR_INVALID);
    assert_int_equal(parse_bool("", &value, NULL), ERR_INVALID);
    assert_true(value);
    assert_ok(parse_bool("false", &value, NULL), NULL);
    assert_false(value);
}

static void hexadecimal_goes_both_ways(void **state)
{
    (void)state;
    uint8_t bytes[4] = {0};
    assert_ok(parse_hex("00ff7a01", bytes, sizeof(bytes), NULL), NULL);
    assert_memory_equal(bytes, "\x00\xFF\x7A\x01", 4);
    char text[9];
    parse_to_hex(bytes, sizeof(bytes), text);
    assert_string_equal(text, "00ff7a01");
    parse_to_hex(bytes, 0, text);
    assert_string_equal(text, "");
}

static void hexadecimal_of_another_length_or_case_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",           "00ff7a",   "00ff7a0",  "00ff7a011",
                                      "00ff7a0100", "00FF7A01", "00ff7a0g", "0x00ff7a"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint8_t bytes[4] = {1, 2, 3, 4};
        assert_int_equal(parse_hex(bad[i], bytes, sizeof(bytes), NULL), ERR_INVALID);
        assert_memory_equal(bytes, "\x01\x02\x03\x04", 4);
    }
}

static void the_nearest_name_is_found_for_small_mistakes_only(void **state)
{
    (void)state;
    static const char *const names[] = {"batch", "momentum", "epochs", "steps", "optimizer"};
    assert_string_equal(parse_nearest("momentun", names, COUNT(names)), "momentum");
    assert_string_equal(parse_nearest("epoch", names, COUNT(names)), "epochs");
    assert_string_equal(parse_nearest("step", names, COUNT(names)), "steps");
    assert_string_equal(parse_nearest("optimiser", names, COUNT(names)), "optimizer");
    assert_null(parse_nearest("learning_rate", names, COUNT(names)));
    assert_null(parse_nearest("ba", names, COUNT(names)));
    assert_null(parse_nearest("", names, COUNT(names)));
    assert_null(parse_nearest("batch", names, 0));
}

static void swapped_letters_beginnings_and_initials_are_found(void **state)
{
    (void)state;
    static const char *const names[] = {"model",  "batch",         "learning_rate", "train",
                                        "conv2d", "micro_batches", "seed"};
    assert_string_equal(parse_nearest("modle", names, COUNT(names)), "model");
    assert_string_equal(parse_nearest("trian", names, COUNT(names)), "train");
    assert_string_equal(parse_nearest("sede", names, COUNT(names)), "seed");
    assert_string_equal(parse_nearest("omdel", names, COUNT(names)), "model");
    assert_string_equal(parse_nearest("batch_size", names, COUNT(names)), "batch");
    assert_string_equal(parse_nearest("conv", names, COUNT(names)), "conv2d");
    assert_string_equal(parse_nearest("micro", names, COUNT(names)), "micro_batches");
    assert_string_equal(parse_nearest("lr", names, COUNT(names)), "learning_rate");
    assert_string_equal(parse_nearest("mb", names, COUNT(names)), "micro_batches");
    assert_null(parse_nearest("l", names, COUNT(names)));
    assert_null(parse_nearest("lra", names, COUNT(names)));
    assert_null(parse_nearest("b", names, COUNT(names)));
    assert_null(parse_nearest("mo", names, COUNT(names)));
}

static void the_first_of_equally_near_names_wins(void **state)
{
    (void)state;
    static const char *const names[] = {"cat", "bat", "rat"};
    assert_string_equal(parse_nearest("hat", names, COUNT(names)), "cat");
    assert_string_equal(parse_nearest("rat", names, COUNT(names)), "rat");
}

static void very_long_names_are_not_compared(void **state)
{
    (void)state;
    char name[200];
    memset(name, 'a', sizeof(name));
    name[199] = '\0';
    const char *const names[] = {name, "b"};
    assert_null(parse_nearest(name, names, COUNT(names)));
    name[64] = '\0';
    assert_string_equal(parse_nearest(name, names, COUNT(names)), name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_within_the_range_are_read),
        cmocka_unit_test(malformed_integers_and_integers_out_of_range_are_rejected),
        cmocka_unit_test(numbers_within_the_range_are_read),
        cmocka_unit_test(malformed_numbers_and_numbers_out_of_range_are_rejected),
        cmocka_unit_test(sizes_have_binary_suffixes),
        cmocka_unit_test(malformed_sizes_are_rejected),
        cmocka_unit_test(a_boolean_is_exactly_true_or_false),
        cmocka_unit_test(hexadecimal_goes_both_ways),
        cmocka_unit_test(hexadecimal_of_another_length_or_case_is_refused),
        cmocka_unit_test(the_nearest_name_is_found_for_small_mistakes_only),
        cmocka_unit_test(swapped_letters_beginnings_and_initials_are_found),
        cmocka_unit_test(the_first_of_equally_near_names_wins),
        cmocka_unit_test(very_long_names_are_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
