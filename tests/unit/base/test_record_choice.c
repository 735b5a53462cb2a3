/* Records of which some members exclude others, and integers of 32 bits. */
#include "base/record.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

struct span {
    uint32_t first, count;
};

/* A circle has spans, every other figure has sides and a weight. */
struct figure {
    union {
        int64_t side[4];
        struct span span[4];
    };
    size_t side_count, span_count;
    double weight;
    uint32_t colour;
    bool is_circle;
};

static const struct field span_fields[] = {
    MEMBER_UINT32(struct span, first, "first", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_UINT32(struct span, count, "count", 0, 1, UINT32_MAX),
};
static const struct record span_record = RECORD(struct span, "span", span_fields);

static const struct field circle_fields[] = {
    MEMBER_RECORDS(struct figure, span, span_count, "spans", FIELD_REQUIRED, &span_record,
                   .min = 1),
};
static const struct record circle_record = RECORD(struct figure, "circle", circle_fields);

static const struct field side_field = {.type = FIELD_INT, .min = -9, .max = 9};

static const struct field figure_fields[] = {
    MEMBER_LIST(struct figure, side, side_count, "sides", FIELD_REQUIRED, &side_field,
                .unless = "circle"),
    MEMBER_DOUBLE(struct figure, weight, "weight", 0, 0, 10, .unless = "circle"),
    MEMBER_UINT32(struct figure, colour, "colour", FIELD_SKIP_EMPTY, 0, UINT32_MAX),
    MEMBER_GROUP_OPTIONAL(struct figure, is_circle, "circle", FIELD_SKIP_EMPTY, &circle_record,
                          .since = 2),
};
static const struct record figure_record = RECORD(struct figure, "figure", figure_fields);

static const struct figure figure_default = {.weight = 3};

static int read_figure(const char *text, int version, struct figure *out,
                       struct record_faults *faults, struct err *err)
{
    json_auto_t *value = NULL;
    *out = figure_default;
    assert_ok(json_parse(text, strlen(text), &value, err), err);
    return record_read_version(&figure_record, version, value, "", out, faults, err);
}

static void check_written(const char *text, const char *expected)
{
    struct figure figure;
    struct err err = {0};
    BUF_AUTO struct buf shown;
    buf_init(&shown, 1000);
    assert_ok(read_figure(text, RECORD_NEWEST, &figure, NULL, &err), &err);
    json_auto_t *written = record_write(&figure_record, &figure);
    assert_ok(json_write(written, &shown, &err), &err);
    assert_string_equal(shown.data, expected);
}

static void check_fault(const char *text, int version, const char *pointer, const char *message)
{
    struct figure figure;
    struct record_faults faults = {0};
    struct err err = {0};
    assert_int_equal(read_figure(text, version, &figure, &faults, &err), ERR_INVALID);
    assert_int_equal(faults.count, 1);
    assert_string_equal(faults.fault[0].pointer, pointer);
    assert_string_equal(faults.fault[0].message, message);
}

static void members_are_written_as_one_of_the_two_kinds(void **state)
{
    (void)state;
    check_written("{\"sides\":[1,-2]}", "{\"sides\":[1,-2],\"weight\":3.0}");
    check_written("{\"sides\":[],\"weight\":0,\"circle\":null}", "{\"sides\":[],\"weight\":0.0}");
    check_written("{\"circle\":{\"spans\":[{\"first\":4294967295,\"count\":7}]},\"colour\":8}",
                  "{\"colour\":8,\"circle\":{\"spans\":[{\"first\":4294967295,\"count\":7}]}}");
}

static void a_member_that_is_excluded_has_its_zero_value(void **state)
{
    (void)state;
    struct figure figure;
    struct err err = {0};
    assert_ok(read_figure("{\"circle\":{\"spans\":[{\"first\":1,\"count\":2}]}}", RECORD_NEWEST,
                          &figure, NULL, &err),
              &err);
    assert_true(figure.is_circle && figure.weight == 0);
    assert_int_equal(figure.side_count, 0);
    assert_int_equal(figure.span_count, 1);
    assert_int_equal(figure.span[0].first, 1);
    assert_int_equal(figure.span[0].count, 2);
    record_clear(&figure_record, &figure);
    assert_false(figure.is_circle);
    assert_int_equal(figure.span_count + figure.span[0].first + figure.span[0].count, 0);
}

static void each_kind_rejects_the_members_of_the_other(void **state)
{
    (void)state;
    static const char both[] = "{\"sides\":[1],\"circle\":{\"spans\":[{\"first\":1,\"count\":2}]}}";
    check_fault(both, RECORD_NEWEST, "/sides", "is not allowed with 'circle'");
    check_fault(both, 1, "/circle", "unknown field");
    check_fault("{\"weight\":3,\"circle\":{\"spans\":[{\"first\":1,\"count\":2}]}}", RECORD_NEWEST,
                "/weight", "is not allowed with 'circle'");
    check_fault("{\"weight\":3}", RECORD_NEWEST, "/sides", "is required without 'circle'");
    check_fault("{\"circle\":null}", RECORD_NEWEST, "/sides", "is required without 'circle'");
    check_fault("{\"circle\":{}}", RECORD_NEWEST, "/circle/spans", "is required");
    check_fault("{\"circle\":7}", RECORD_NEWEST, "/circle",
                "expected an object with the members spans, got an integer");
}

static void an_integer_of_32_bits_has_its_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *first, *fault;
    } cases[] = {
        {"4294967296", "must be at most 4294967295"},
        {"9223372036854775807", "must be at most 4294967295"},
        {"-1", "must be at least 0"},
        {"1.0", "expected an integer, got a number with a fraction or exponent"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text),
                       "{\"circle\":{\"spans\":[{\"first\":0,\"count\":1},{\"first\":%s}]}}",
                       cases[i].first);
        check_fault(text, RECORD_NEWEST, "/circle/spans/1/first", cases[i].fault);
    }
}

struct source {
    char name[8], place[8];
};

static const struct field source_fields[] = {
    MEMBER_TEXT(struct source, name, "name", FIELD_SKIP_EMPTY),
    MEMBER_TEXT(struct source, place, "place", FIELD_SKIP_EMPTY, .since = 2),
};
static const struct record source_record =
    RECORD_WITH(struct source, "source", source_fields, .first_alone = true);
static const struct field use_fields[] = {
    MEMBER_GROUP("source", FIELD_REQUIRED, &source_record),
};
static const struct record use_record = RECORD(struct source, "use", use_fields);

static void a_text_stands_for_an_object_with_its_first_member(void **state)
{
    (void)state;
    static const struct {
        const char *text, *written;
    } cases[] = {
        {"{\"source\":\"a\"}", "{\"source\":\"a\"}"},
        {"{\"source\":{\"name\":\"a\"}}", "{\"source\":\"a\"}"},
        {"{\"source\":{\"place\":\"b\"}}", "{\"source\":{\"place\":\"b\"}}"},
        {"{\"source\":{\"name\":\"a\",\"place\":\"b\"}}",
         "{\"source\":{\"name\":\"a\",\"place\":\"b\"}}"},
        {"{\"source\":{}}", "{\"source\":{}}"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct source source = {.name = ""};
        struct err err = {0};
        BUF_AUTO struct buf shown;
        buf_init(&shown, 1000);
        json_auto_t *value = NULL;
        assert_ok(json_parse(cases[i].text, strlen(cases[i].text), &value, &err), &err);
        assert_ok(record_read(&use_record, value, "", &source, NULL, &err), &err);
        json_auto_t *written = record_write(&use_record, &source);
        assert_ok(json_write(written, &shown, &err), &err);
        assert_string_equal(shown.data, cases[i].written);
    }
}

static const struct field perhaps_fields[] = {
    MEMBER_GROUP("source", FIELD_NULLABLE, &source_record),
};
static const struct record perhaps_record = RECORD(struct source, "perhaps", perhaps_fields);

static void null_stands_for_such_an_object_without_members(void **state)
{
    (void)state;
    static const struct {
        const char *text, *written, *name, *place;
    } cases[] = {
        {"{\"source\":null}", "{\"source\":null}", "", ""},
        {"{}", "{\"source\":\"x\"}", "x", ""},
        {"{\"source\":\"a\"}", "{\"source\":\"a\"}", "a", ""},
        {"{\"source\":{\"place\":\"b\"}}", "{\"source\":{\"name\":\"x\",\"place\":\"b\"}}", "x",
         "b"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct source source = {.name = "x"};
        struct err err = {0};
        BUF_AUTO struct buf shown;
        buf_init(&shown, 1000);
        json_auto_t *value = NULL;
        assert_ok(json_parse(cases[i].text, strlen(cases[i].text), &value, &err), &err);
        assert_ok(record_read(&perhaps_record, value, "", &source, NULL, &err), &err);
        assert_string_equal(source.name, cases[i].name);
        assert_string_equal(source.place, cases[i].place);
        json_auto_t *written = record_write(&perhaps_record, &source);
        assert_ok(json_write(written, &shown, &err), &err);
        assert_string_equal(shown.data, cases[i].written);
    }
}

static void an_object_without_members_is_not_null(void **state)
{
    (void)state;
    static const struct {
        const char *text, *fault;
    } cases[] = {
        {"{\"source\":{}}", "/source: needs 'name' or 'place', or null"},
        {"{\"source\":{\"name\":\"\"}}", "/source: needs 'name' or 'place', or null"},
        {"{\"source\":{\"name\":1}}", "/source/name: "},
        {"{\"source\":{\"place\":\"b\"}}", NULL},
        {"{\"source\":null}", NULL},
        {"{}", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct source source = {.name = ""};
        struct record_faults faults = {0};
        struct err err = {0};
        json_auto_t *value = NULL;
        assert_ok(json_parse(cases[i].text, strlen(cases[i].text), &value, &err), &err);
        const int rc = record_read(&perhaps_record, value, "", &source, &faults, &err);
        assert_int_equal(rc, cases[i].fault ? ERR_INVALID : 0);
        assert_int_equal(faults.count, cases[i].fault ? 1 : 0);
        if (cases[i].fault) {
            assert_holds(err.text, cases[i].fault);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_written_as_one_of_the_two_kinds),
        cmocka_unit_test(a_member_that_is_excluded_has_its_zero_value),
        cmocka_unit_test(each_kind_rejects_the_members_of_the_other),
        cmocka_unit_test(an_integer_of_32_bits_has_its_bounds),
        cmocka_unit_test(a_text_stands_for_an_object_with_its_first_member),
        cmocka_unit_test(an_object_without_members_is_not_null),
        cmocka_unit_test(null_stands_for_such_an_object_without_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
