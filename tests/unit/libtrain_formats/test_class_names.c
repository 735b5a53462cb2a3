/* Names of classes as text: any bytes in, the same text for the same bytes, lists compared by
 * number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/formats/class_names.h"
#include "tests/support/test.h"

/* A list of names as they come from directories; ends with NULL. name_list_done. */
static struct name_list names_of(const char *const *name)
{
    struct name_list names = {0};
    struct err err = {0};
    for (size_t i = 0; name[i]; i++) {
        assert_ok(class_names_append(&names, name[i], strlen(name[i]), &err), &err);
    }
    return names;
}
#define NAMES(...) names_of((const char *const[]){__VA_ARGS__, NULL})

static int read_text(const char *text, struct name_list *names, struct err *err)
{
    json_auto_t *value = NULL;
    assert_int_equal(json_parse(text, strlen(text), &value, err), 0);
    return class_names_read(value, names, err);
}

static void refused(const char *text, const char *part)
{
    struct name_list names = NAMES("left", "over");
    struct err err = {0};
    assert_int_equal(read_text(text, &names, &err), ERR_INVALID);
    assert_holds(err.text, part);
    assert_int_equal(names.count, 0);
}

static void names_differ_as_texts_where_they_differ_as_bytes(void **state)
{
    (void)state;
    struct name_list names =
        NAMES("caf\xe9", "caf\xe8", "caf\xc3\xa9", "caf?", "caf\x01", "caf%E9", "a b\"\\", "\x7f");
    static const char *const expected[] = {"caf%E9", "caf%E8",   "caf\xc3\xa9", "caf?",
                                           "caf%01", "caf%25E9", "a b\"\\",     "%7F"};
    for (size_t i = 0; i < names.count; i++) {
        assert_string_equal(names.item[i], expected[i]);
    }
    BUF_AUTO struct buf text;
    struct name_list again = {0};
    struct err err = {0};
    buf_init(&text, 1 << 20);
    assert_ok(class_names_write(&names, &text, &err), &err);
    assert_ok(read_text(text.data, &again, &err), &err);
    assert_int_equal(again.count, names.count);
    assert_true(class_names_agree(&names, &again));
    name_list_done(&names);
    name_list_done(&again);
}

static void a_malformed_list_is_rejected(void **state)
{
    (void)state;
    struct name_list names = {0};
    struct err err = {0};
    assert_ok(read_text("[]", &names, &err), &err);
    refused("{}", "expected a list");
    refused("[\"a\",7]", "name 1: expected a text");
    refused("[\"\"]", "name 0: ");
    refused("[\"two\\nlines\"]", "name 0: ");
    refused("[\"100%\"]", "%25 in place of a '%'");
    refused("[\"%e9\"]", "name 0: ");
    refused("[\"b\",\"a\",\"b\"]", "'b' occurs twice");
}

/* Names that take 14 bytes each as JSON, with quotation marks and comma. */
static struct name_list many(size_t count)
{
    struct name_list names = {0};
    struct err err = {0};
    for (size_t i = 0; i < count; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%08zu\"", i);
        assert_ok(class_names_append(&names, name, strlen(name), &err), &err);
    }
    return names;
}

static void a_list_has_a_bound(void **state)
{
    (void)state;
    const size_t most = (CLASS_NAMES_TEXT_MAX - 2) / 14;
    for (size_t extra = 0; extra < 2; extra++) {
        struct name_list names = many(most + extra);
        struct name_list again = {0};
        struct err err = {0};
        BUF_AUTO struct buf text;
        buf_init(&text, 1 << 20);
        assert_int_equal(class_names_write(&names, &text, &err), extra ? ERR_LIMIT : 0);
        json_auto_t *list = class_names_json(&names);
        assert_int_equal(class_names_read(list, &again, &err), extra ? ERR_INVALID : 0);
        name_list_done(&names);
        name_list_done(&again);
    }
}

static void differ(struct name_list some, struct name_list all, const char *expected)
{
    char text[CLASS_NAMES_DIFFERENCE_MAX];
    assert_int_equal(class_names_agree(&some, &all), expected == NULL);
    if (expected) {
        class_names_difference(&some, &all, text);
        assert_string_equal(text, expected);
    }
    name_list_done(&some);
    name_list_done(&all);
}

static void lists_agree_where_each_number_means_the_same(void **state)
{
    (void)state;
    differ(NAMES("a", "b"), NAMES("a", "b"), NULL);
    differ(NAMES("a", "b"), NAMES("a", "b", "c"), NULL);
    differ((struct name_list){0}, NAMES("a"), NULL);
    differ(NAMES("a"), (struct name_list){0}, NULL);
    differ(NAMES("a", "b", "c"), NAMES("a", "b"), "unknown: 'c'");
    differ(NAMES("b", "c"), NAMES("a", "b", "c"), "missing: 'a'");
    differ(NAMES("b", "a"), NAMES("a", "b"), "class 0 is 'b', not 'a'");
    differ(NAMES("a", "b"), NAMES("a", "c", "b"), "missing: 'c'");
    differ(NAMES("x1", "x2", "x3", "x4", "a"), NAMES("a", "z"),
           "missing: 'z'; unknown: 'x1', 'x2' and 2 more");
    differ(NAMES("a name that is too long"), NAMES("b"),
           "missing: 'b'; unknown: 'a name that is t'");
    differ(NAMES("fifteen bytes, \xc3\xa9"), NAMES("b"),
           "missing: 'b'; unknown: 'fifteen bytes, ?'");
}

static void names_are_found_by_name(void **state)
{
    (void)state;
    struct name_list from = NAMES("cat", "wolf", "bird");
    struct name_list to = NAMES("bird", "cat", "dog");
    struct name_list nothing = {0};
    char text[CLASS_NAMES_LISTED_MAX];
    int32_t number[3] = {7, 7, 7};
    struct err err = {0};
    assert_ok(class_names_map(&from, &to, number, &err), &err);
    assert_int_equal(number[0], 1);
    assert_int_equal(number[1], -1);
    assert_int_equal(number[2], 0);
    assert_ok(class_names_map(&from, &nothing, number, &err), &err);
    assert_int_equal(number[0], -1);
    assert_int_equal(class_names_absent(&from, &to, text), 1);
    assert_string_equal(text, "'wolf'");
    assert_int_equal(class_names_absent(&to, &to, text), 0);
    assert_string_equal(text, "");
    class_names_list(&to, text);
    assert_string_equal(text, "'bird', 'cat' and 1 more");
    name_list_done(&from);
    name_list_done(&to);
}

static void selected_names_end_with_one_for_all_others(void **state)
{
    (void)state;
    static const int64_t number[] = {2, 0};
    static const struct {
        const char *third, *other;
    } cases[] = {{"yak", "other"}, {"other", "other_"}, {"Other", "other"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct name_list all = NAMES("cat", "dog", cases[i].third), some = {0};
        struct err err = {0};
        assert_ok(class_names_select(&all, number, 2, &some, &err), &err);
        assert_int_equal(some.count, 3);
        assert_string_equal(some.item[0], cases[i].third);
        assert_string_equal(some.item[1], "cat");
        assert_string_equal(some.item[2], cases[i].other);
        name_list_done(&all);
        name_list_done(&some);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_differ_as_texts_where_they_differ_as_bytes),
        cmocka_unit_test(a_malformed_list_is_rejected),
        cmocka_unit_test(a_list_has_a_bound),
        cmocka_unit_test(lists_agree_where_each_number_means_the_same),
        cmocka_unit_test(names_are_found_by_name),
        cmocka_unit_test(selected_names_end_with_one_for_all_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
