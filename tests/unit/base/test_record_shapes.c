/* The parts of record.h that shape a document: maps, groups, constants, forms of texts, lists with
 * a least length, values that may be null beside a zero and members that are left out when empty.
 */
#include "base/record.h"

#include <string.h>

#include "tests/support/test.h"

struct label {
    char key[8];
    char value[8];
};

struct node {
    char name[8];
    struct label labels[2];
    size_t label_count;
    double clip_norm;
    bool has_clip_norm;
    int64_t cuts[4];
    size_t cut_count;
    bool has_cuts;
    int64_t first;
    int64_t every;
    int kind;
    bool flag;
    double rate;
    char text[8];
    json_t *any[2];
    size_t any_count;
    char words[3][8];
    size_t word_count;
    int word; /* in place of words */
    int64_t sizes[3];
    size_t size_count;
    int64_t size; /* in place of sizes */
};

static bool is_lower(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "abcdefghijklmnopqrstuvwxyz")] == '\0';
}

static const struct text_form lower_form = {.valid = is_lower, .expected = "a word of a-z"};
static const char *const kinds[] = {"none", "some", NULL};
static const char *const word_names[] = {"all", "last", NULL};

static const struct field label_fields[] = {
    MEMBER_FORM(struct label, key, "key", FIELD_REQUIRED, &lower_form),
    MEMBER_TEXT(struct label, value, "value", FIELD_REQUIRED),
};
static const struct record label_record = RECORD(struct label, "label", label_fields);

static const struct field replan_fields[] = {
    MEMBER_INT(struct node, first, "first", 0, 0, 10),
    MEMBER_INT(struct node, every, "every", FIELD_REQUIRED, 1, 10),
};
static const struct record replan_record = RECORD(struct node, "replan", replan_fields);

static const struct field cut_field = {.type = FIELD_INT, .min = 1, .max = 9};
static const struct field any_field = {.type = FIELD_JSON};
static const struct field word_field = {.type = FIELD_TEXT, .size = 8};
static const struct field word_alone = MEMBER_ENUM(struct node, word, "words", 0, word_names);
static const struct field size_field = {.type = FIELD_INT, .min = 1, .max = 99};
static const struct field size_alone = MEMBER_INT(struct node, size, "sizes", FIELD_NULLABLE, 1, 9);

static const struct field node_fields[] = {
    MEMBER_FORM(struct node, name, "name", 0, &lower_form),
    MEMBER_MAP(struct node, labels, label_count, "labels", FIELD_SKIP_EMPTY, &label_record),
    MEMBER_DOUBLE_OPTIONAL(struct node, clip_norm, has_clip_norm, "clip_norm", 0, 0, 100),
    MEMBER_LIST_OPTIONAL(struct node, cuts, cut_count, has_cuts, "cuts", 0, &cut_field),
    MEMBER_GROUP("replan", 0, &replan_record),
    MEMBER_CONSTANT("pipeline", "\"sync\""),
    MEMBER_ENUM(struct node, kind, "kind", FIELD_NULLABLE, kinds),
    MEMBER_BOOL(struct node, flag, "flag", FIELD_NULLABLE),
    MEMBER_DOUBLE(struct node, rate, "rate", FIELD_NULLABLE, 0, 0),
    MEMBER_TEXT(struct node, text, "text", FIELD_NULLABLE),
    {.name = "any",
     .type = FIELD_LIST,
     .flags = FIELD_SKIP_EMPTY,
     .offset = offsetof(struct node, any),
     .element = &any_field,
     .element_size = sizeof(json_t *),
     .size = 2,
     .min = 1,
     .max = 2,
     .count_offset = offsetof(struct node, any_count)},
    MEMBER_LIST(struct node, words, word_count, "words", FIELD_SKIP_EMPTY, &word_field,
                .instead = &word_alone, .min = 1),
    MEMBER_LIST(struct node, sizes, size_count, "sizes", FIELD_SKIP_EMPTY, &size_field,
                .instead = &size_alone, .min = 1),
};
static const struct record node_record = RECORD(struct node, "node", node_fields);

struct outcome {
    struct node node;
    struct record_faults faults;
    struct err err;
    int rc;
};

static void read_node(struct outcome *out, const char *text)
{
    *out = (struct outcome){
        .node = {
            .name = "a", .every = 1, .first = 5, .kind = 1, .flag = true, .rate = 2, .text = "t"}};
    json_auto_t *value = NULL;
    assert_ok(json_parse(text, strlen(text), &value, &out->err), &out->err);
    out->rc = record_read(&node_record, value, "", &out->node, &out->faults, &out->err);
}

static void check_fault(const char *text, const char *pointer, const char *message)
{
    struct outcome out;
    read_node(&out, text);
    assert_int_equal(out.rc, ERR_INVALID);
    assert_int_equal(out.faults.count, 1);
    assert_string_equal(out.faults.fault[0].pointer, pointer);
    assert_string_equal(out.faults.fault[0].message, message);
    record_done(&node_record, &out.node);
}

/* Read the text, write the struct and compare; then read the written text and write it again. */
static void check_written(const char *text, const char *expected)
{
    struct outcome out;
    read_node(&out, text);
    for (int i = 0; i < 2; i++) {
        assert_ok(out.rc, &out.err);
        json_auto_t *written = record_write(&node_record, &out.node);
        BUF_AUTO struct buf shown;
        buf_init(&shown, 10000);
        assert_ok(json_write(written, &shown, &out.err), &out.err);
        assert_string_equal(shown.data, expected);
        record_done(&node_record, &out.node);
        read_node(&out, shown.data);
    }
    record_done(&node_record, &out.node);
}

static void a_map_is_an_object_of_texts(void **state)
{
    (void)state;
    struct outcome out;
    read_node(&out, "{\"labels\":{\"room\":\"7\",\"site\":\"\"}}");
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.node.label_count, 2);
    assert_string_equal(out.node.labels[0].key, "room");
    assert_string_equal(out.node.labels[0].value, "7");
    assert_string_equal(out.node.labels[1].key, "site");
    assert_string_equal(out.node.labels[1].value, "");
}

static void a_map_bounds_its_names_values_and_number(void **state)
{
    (void)state;
    check_fault("{\"labels\":[]}", "/labels", "expected an object, got an array");
    check_fault("{\"labels\":{\"a\":1}}", "/labels/a", "expected a string, got an integer");
    check_fault("{\"labels\":{\"Room\":\"1\"}}", "/labels/Room", "'Room' is not a word of a-z");
    check_fault("{\"labels\":{\"abcdefgh\":\"1\"}}", "/labels/abcdefgh",
                "is 8 bytes long; at most 7 are allowed");
    check_fault("{\"labels\":{\"a\":\"12345678\"}}", "/labels/a",
                "is 8 bytes long; at most 7 are allowed");
    check_fault("{\"labels\":{\"a\":\"\",\"b\":\"\",\"c\":\"\"}}", "/labels",
                "has 3 elements; at most 2 are allowed");
}

static void a_text_must_have_its_form(void **state)
{
    (void)state;
    check_fault("{\"name\":\"A\"}", "/name", "'A' is not a word of a-z");
    check_fault("{\"name\":\"\"}", "/name", "'' is not a word of a-z");
}

static void a_group_nests_members_of_the_same_struct(void **state)
{
    (void)state;
    struct outcome out;
    read_node(&out, "{\"replan\":{\"every\":3}}");
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.node.every, 3);
    assert_int_equal(out.node.first, 5);
    check_fault("{\"replan\":{}}", "/replan/every", "is required");
    check_fault("{\"replan\":{\"every\":1,\"frist\":1}}", "/replan/frist",
                "unknown field; did you mean 'first'?");
    check_fault("{\"replan\":null}", "/replan",
                "expected an object with the members first, every, got null");
}

static void a_constant_takes_its_one_value_only(void **state)
{
    (void)state;
    struct outcome out;
    read_node(&out, "{\"pipeline\":\"sync\"}");
    assert_ok(out.rc, &out.err);
    check_fault("{\"pipeline\":\"async\"}", "/pipeline",
                "not supported by this version; leave it out or use \"sync\"");
    check_fault("{\"pipeline\":null}", "/pipeline",
                "not supported by this version; leave it out or use \"sync\"");
}

static void a_zero_beside_a_presence_is_not_null(void **state)
{
    (void)state;
    struct outcome out;
    read_node(&out, "{\"clip_norm\":0,\"cuts\":[]}");
    assert_ok(out.rc, &out.err);
    assert_true(out.node.has_clip_norm && out.node.has_cuts);
    read_node(&out, "{\"clip_norm\":null,\"cuts\":null}");
    assert_ok(out.rc, &out.err);
    assert_false(out.node.has_clip_norm || out.node.has_cuts);
    check_fault("{\"clip_norm\":101}", "/clip_norm", "must be at most 100");
    check_fault("{\"cuts\":[0]}", "/cuts/0", "must be at least 1");
}

static void a_list_may_need_elements(void **state)
{
    (void)state;
    check_fault("{\"any\":[]}", "/any", "has 0 elements; at least 1 are needed");
    check_fault("{\"any\":[1,2,3]}", "/any", "has 3 elements; at most 2 are allowed");
}

#define PLAIN                                                                                      \
    "{\"name\":\"a\",\"clip_norm\":null,\"cuts\":null,\"replan\":{\"first\":5,\"every\":1},"       \
    "\"pipeline\":\"sync\",\"kind\":\"some\",\"flag\":true,\"rate\":2.0,\"text\":\"t\""

static void a_word_takes_the_place_of_a_list(void **state)
{
    (void)state;
    struct outcome out;
    read_node(&out, "{\"words\":\"last\"}");
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.node.word_count, 0);
    assert_int_equal(out.node.word, 1);
    read_node(&out, "{\"words\":[\"last\",\"b\"]}");
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.node.word_count, 2);
    assert_string_equal(out.node.words[1], "b");
    assert_int_equal(out.node.word, 2); /* no word: the index after the last */
    check_written("{\"words\":\"last\"}", PLAIN ",\"words\":\"last\"}");
    check_written("{\"words\":\"all\"}", PLAIN "}"); /* the zero value is left out */
    check_written("{\"words\":[\"all\"]}", PLAIN ",\"words\":[\"all\"]}");
    check_written("{\"words\":[\"all\",\"b\"]}", PLAIN ",\"words\":[\"all\",\"b\"]}");
}

static void an_integer_takes_the_place_of_a_list(void **state)
{
    (void)state;
    struct outcome out;
    read_node(&out, "{\"sizes\":9}");
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.node.size_count, 0);
    assert_int_equal(out.node.size, 9);
    read_node(&out, "{\"sizes\":[70,3]}");
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.node.size_count, 2);
    assert_int_equal(out.node.sizes[0], 70);
    assert_int_equal(out.node.size, 2); /* how many */
    check_written("{\"sizes\":9}", PLAIN ",\"sizes\":9}");
    check_written("{\"sizes\":null}", PLAIN "}");
    check_written("{\"sizes\":[5]}", PLAIN ",\"sizes\":[5]}");
    record_clear(&node_record, &out.node);
    assert_int_equal(out.node.size + out.node.sizes[0] + (int64_t)out.node.size_count, 0);
}

static void a_value_replaces_the_list_that_was_the_default(void **state)
{
    (void)state;
    static const char *const given[] = {"{\"sizes\":4,\"words\":\"last\"}", "{\"sizes\":null}"};
    static const int64_t expected[] = {4, 0};
    for (size_t i = 0; i < 2; i++) {
        struct node node = {.sizes = {5, 6}, .size_count = 2, .size = 2, .name = "a", .every = 1};
        struct err err = {0};
        json_auto_t *value = json_loads(given[i], 0, NULL);
        assert_ok(record_read(&node_record, value, "", &node, NULL, &err), &err);
        assert_int_equal(node.size_count, 0);
        assert_int_equal(node.size, expected[i]);
    }
}

static void a_fault_names_the_list_and_what_takes_its_place(void **state)
{
    (void)state;
    check_fault("{\"words\":\"b\"}", "/words",
                "unknown value 'b'; expected one of all, last, or an array");
    check_fault("{\"words\":[]}", "/words", "has 0 elements; at least 1 are needed");
    check_fault("{\"words\":7}", "/words",
                "expected one of all, last, or an array, got an integer");
    check_fault("{\"words\":null}", "/words", "expected one of all, last, or an array, got null");
    check_fault("{\"words\":[\"all\",7]}", "/words/1", "expected a string, got an integer");
    check_fault("{\"sizes\":\"two\"}", "/sizes", "expected an integer or an array, got a string");
    check_fault("{\"sizes\":2.5}", "/sizes", "expected an integer or an array, got a number");
    check_fault("{\"sizes\":{}}", "/sizes", "expected an integer or an array, got an object");
    check_fault("{\"sizes\":0}", "/sizes", "must be at least 1");
    check_fault("{\"sizes\":10}", "/sizes", "must be at most 9");
    check_fault("{\"sizes\":[1,0]}", "/sizes/1", "must be at least 1");
    check_fault("{\"sizes\":[1,2,3,4]}", "/sizes", "has 4 elements; at most 3 are allowed");
}

static void a_list_owns_its_values_until_done(void **state)
{
    (void)state;
    struct outcome out;
    read_node(&out, "{\"any\":[{\"a\":1},null]}");
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.node.any_count, 2);
    assert_true(json_is_object(out.node.any[0]) && json_is_null(out.node.any[1]));
    record_done(&node_record, &out.node);
    assert_null(out.node.any[0]);
}

static void a_text_with_a_nul_is_refused(void **state)
{
    (void)state;
    json_auto_t *value = json_pack("{so}", "text", json_stringn("a\0b", 3));
    struct node node = {0};
    struct err err = {0};
    assert_int_equal(record_read(&node_record, value, "", &node, NULL, &err), ERR_INVALID);
    assert_string_equal(err.text, "/text: holds a NUL character");
}

static void every_shape_is_written_as_it_is_read(void **state)
{
    (void)state;
    check_written(
        "{}",
        "{\"name\":\"a\",\"clip_norm\":null,\"cuts\":null,\"replan\":{\"first\":5,\"every\":1},"
        "\"pipeline\":\"sync\",\"kind\":\"some\",\"flag\":true,\"rate\":2.0,\"text\":\"t\"}");
    check_written(
        "{\"labels\":{\"b\":\"1\",\"a\":\"2\"},\"clip_norm\":0,\"cuts\":[3,2],\"replan\":{"
        "\"every\":9},"
        "\"kind\":null,\"flag\":null,\"rate\":null,\"text\":null,\"any\":[[1],\"x\"]}",
        "{\"name\":\"a\",\"labels\":{\"b\":\"1\",\"a\":\"2\"},\"clip_norm\":0.0,\"cuts\":[3,2],"
        "\"replan\":{\"first\":5,\"every\":9},\"pipeline\":\"sync\",\"kind\":null,\"flag\":null,"
        "\"rate\":null,"
        "\"text\":null,\"any\":[[1],\"x\"]}");
}

static void a_cleared_struct_is_as_new(void **state)
{
    (void)state;
    struct outcome out;
    read_node(
        &out,
        "{\"name\":\"b\",\"labels\":{\"room\":\"7\"},\"clip_norm\":1,\"cuts\":[1,2],\"any\":[[1]],"
        "\"replan\":{\"first\":2,\"every\":3}}");
    assert_ok(out.rc, &out.err);
    record_clear(&node_record, &out.node);
    assert_string_equal(out.node.name, "");
    assert_string_equal(out.node.text, "");
    assert_int_equal(out.node.label_count + out.node.cut_count + out.node.any_count, 0);
    assert_memory_equal(out.node.labels, (struct label[2]){0}, sizeof(out.node.labels));
    assert_memory_equal(out.node.cuts, (int64_t[4]){0}, sizeof(out.node.cuts));
    assert_null(out.node.any[0]);
    assert_false(out.node.has_clip_norm || out.node.has_cuts || out.node.flag);
    assert_int_equal(out.node.first + out.node.every + out.node.kind, 0);
    assert_true(out.node.clip_norm == 0 && out.node.rate == 0);

    /* Also after a list that was rejected at its second element. */
    read_node(&out, "{\"cuts\":[5,70]}");
    assert_int_equal(out.rc, ERR_INVALID);
    record_clear(&node_record, &out.node);
    assert_memory_equal(out.node.cuts, (int64_t[4]){0}, sizeof(out.node.cuts));
}

struct pause {
    int64_t ms;
};

static const struct field pause_fields[] = {MEMBER_INT(struct pause, ms, "ms", 0, 0, 0)};
static const struct record pause_record = RECORD(struct pause, "pause", pause_fields);

struct event {
    int64_t at_ms;
    bool flag;
    int64_t count;
    double rate;
    char text[4];
    int kind;
    json_t *extra;
    struct pause nested;
    bool has_nested;
    int64_t first, last;
};

static const struct field span_fields[] = {
    MEMBER_INT(struct event, first, "first", 0, 0, 0),
    MEMBER_INT(struct event, last, "last", 0, 0, 0),
};
static const struct record span_record = RECORD(struct event, "span", span_fields);

static const struct field event_fields[] = {
    MEMBER_TIME(struct event, at_ms, "at", 0),
    MEMBER_BOOL(struct event, flag, "flag", FIELD_SKIP_EMPTY),
    MEMBER_INT(struct event, count, "count", FIELD_SKIP_EMPTY, 0, 0),
    MEMBER_DOUBLE(struct event, rate, "rate", FIELD_SKIP_EMPTY, 0, 0),
    MEMBER_TEXT(struct event, text, "text", FIELD_SKIP_EMPTY),
    MEMBER_ENUM(struct event, kind, "kind", FIELD_SKIP_EMPTY, kinds),
    MEMBER_JSON(struct event, extra, "extra", FIELD_SKIP_EMPTY),
    MEMBER_OPTIONAL(struct event, nested, has_nested, "nested", FIELD_SKIP_EMPTY, &pause_record),
    MEMBER_GROUP("span", FIELD_SKIP_EMPTY, &span_record),
};
static const struct record event_record = RECORD(struct event, "event", event_fields);

static void check_event(const struct event *event, const char *expected)
{
    struct err err = {0};
    json_auto_t *value = record_write(&event_record, event);
    BUF_AUTO struct buf text;
    buf_init(&text, 1000);
    assert_ok(json_write(value, &text, &err), &err);
    assert_string_equal(text.data, expected);
    struct event again = {0};
    assert_ok(record_read(&event_record, value, "", &again, NULL, &err), &err);
    assert_int_equal(again.at_ms, event->at_ms);
    assert_int_equal(again.count, event->count);
    record_done(&event_record, &again);
}

static void empty_members_are_skipped_where_the_table_says_so(void **state)
{
    (void)state;
    check_event(&(struct event){0}, "{\"at\":\"1970-01-01T00:00:00.000Z\"}");
    check_event(&(struct event){.at_ms = 1,
                                .flag = true,
                                .count = -1,
                                .rate = 0.5,
                                .text = "abc",
                                .kind = 1,
                                .has_nested = true},
                "{\"at\":\"1970-01-01T00:00:00.001Z\",\"flag\":true,\"count\":-1,\"rate\":0.5,"
                "\"text\":\"abc\","
                "\"kind\":\"some\",\"nested\":{\"ms\":0}}");
    check_event(&(struct event){.last = 2},
                "{\"at\":\"1970-01-01T00:00:00.000Z\",\"span\":{\"first\":0,\"last\":2}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_is_an_object_of_texts),
        cmocka_unit_test(a_map_bounds_its_names_values_and_number),
        cmocka_unit_test(a_text_must_have_its_form),
        cmocka_unit_test(a_group_nests_members_of_the_same_struct),
        cmocka_unit_test(a_constant_takes_its_one_value_only),
        cmocka_unit_test(a_zero_beside_a_presence_is_not_null),
        cmocka_unit_test(a_list_may_need_elements),
        cmocka_unit_test(a_word_takes_the_place_of_a_list),
        cmocka_unit_test(an_integer_takes_the_place_of_a_list),
        cmocka_unit_test(a_value_replaces_the_list_that_was_the_default),
        cmocka_unit_test(a_fault_names_the_list_and_what_takes_its_place),
        cmocka_unit_test(a_list_owns_its_values_until_done),
        cmocka_unit_test(a_text_with_a_nul_is_refused),
        cmocka_unit_test(every_shape_is_written_as_it_is_read),
        cmocka_unit_test(a_cleared_struct_is_as_new),
        cmocka_unit_test(empty_members_are_skipped_where_the_table_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
