/* base/json_text.h: the bytes of values, keys, commas and escapes. */
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/json_text.h"

struct place {
    char bytes[512];
    size_t size;
};

static void keep(void *to, const char *bytes, size_t size)
{
    struct place *place = to;
    assert_true(size < sizeof(place->bytes) - place->size);
    memcpy(place->bytes + place->size, bytes, size);
    place->size += size;
}

static void members_and_elements_are_separated_by_commas(void **state)
{
    (void)state;
    struct place place = {0};
    struct json_text text = {.put = keep, .to = &place};
    json_text_object(&text, NULL);
    json_text_integer(&text, "step", -7);
    json_text_list(&text, "shape");
    json_text_integer(&text, NULL, 3);
    json_text_integer(&text, NULL, INT64_MAX);
    json_text_list(&text, NULL);
    json_text_end(&text);
    json_text_end(&text);
    json_text_object(&text, "empty");
    json_text_end(&text);
    json_text_number(&text, "loss", 0.1);
    json_text_number(&text, "worst", (double)INFINITY);
    json_text_literal(&text, "flag", "true");
    json_text_end(&text);
    assert_string_equal(place.bytes,
                        "{\"step\":-7,\"shape\":[3,9223372036854775807,[]],\"empty\":{},"
                        "\"loss\":0.1,\"worst\":null,\"flag\":true}");
}

static void keys_and_strings_read_back_as_they_were(void **state)
{
    (void)state;
    static const char awkward[] = "a \"b\" \\ c\n\x01\x1f caf\xc3\xa9 / \x7f";
    struct place place = {0};
    struct json_text text = {.put = keep, .to = &place};
    json_text_object(&text, NULL);
    json_text_string(&text, awkward, awkward);
    json_text_string(&text, "none", "");
    json_text_end(&text);
    json_auto_t *value = NULL;
    struct err err = {0};
    assert_int_equal(json_parse(place.bytes, place.size, &value, &err), 0);
    assert_string_equal(json_string_value(json_object_get(value, awkward)), awkward);
    assert_string_equal(json_string_value(json_object_get(value, "none")), "");
    assert_non_null(strstr(place.bytes, "\\\"b\\\" \\\\ c\\u000a\\u0001\\u001f caf"));
}

static void texts_one_after_another_have_no_comma(void **state)
{
    (void)state;
    struct place place = {0};
    struct json_text text = {.put = keep, .to = &place};
    for (int i = 0; i < 2; i++) {
        json_text_object(&text, NULL);
        json_text_integer(&text, "step", i);
        json_text_end(&text);
        keep(&place, "\n", 1);
    }
    assert_string_equal(place.bytes, "{\"step\":0}\n{\"step\":1}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_and_elements_are_separated_by_commas),
        cmocka_unit_test(keys_and_strings_read_back_as_they_were),
        cmocka_unit_test(texts_one_after_another_have_no_comma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
