/* The examples are documentation and tests at once: every valid one is read, written and read again
 * without a loss, with and without each of its members; every invalid one gives exactly the faults
 * that the text beside it states. */
#include "tests/support/test.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "schema/limits.h"
#include "schema/wire.h"
#include "schema/records.h"

/* Whether `whole` contains `part`: members missing in `whole` are null, 1 and 1.0 are the same. */
static bool holds(const json_t *whole, json_t *part)
{
    if (json_is_null(part) || !whole) {
        return json_is_null(part) && (!whole || json_is_null(whole));
    }
    if (json_is_number(part)) {
        return json_is_number(whole) &&
               fabs(json_number_value(whole) - json_number_value(part)) <= 0;
    }
    if (json_is_object(part)) {
        const char *name;
        json_t *member;
        json_object_foreach(part, name, member)
        {
            if (!holds(json_object_get(whole, name), member)) {
                print_error("member '%s' is lost\n", name);
                return false;
            }
        }
        return json_is_object(whole);
    }
    if (json_is_array(part)) {
        for (size_t i = 0; i < json_array_size(part); i++) {
            if (!holds(json_array_get(whole, i), json_array_get(part, i))) {
                return false;
            }
        }
        return json_array_size(whole) == json_array_size(part);
    }
    return json_equal(whole, part);
}

/* An example as its record reads and judges it. */
struct reading {
    const struct records_entry *test;
    void *value; /* heap; record_done is the caller's where rc is 0 */
    struct record_faults faults;
    struct err err;
    int rc;
};

static void read_example(const char *name, const struct buf *text, struct reading *out)
{
    const struct records_entry *test = records_find(name);
    if (!test) {
        fail_msg("%s: no record of that name", name);
        return;
    }
    *out = (struct reading){.test = test, .value = records_new(test)};
    assert_non_null(out->value);
    out->rc = wire_read(test->record, text->data, text->size, out->value, &out->faults, &out->err);
    if (!out->rc && test->check) {
        out->rc = test->check(out->value, &out->faults, &out->err);
        if (out->rc) {
            record_done(test->record, out->value);
        }
    }
}

static void check_valid(const char *name, const struct buf *text)
{
    struct reading reading = {0};
    read_example(name, text, &reading);
    if (reading.rc) {
        fail_msg("%s: %s", name, reading.err.text);
    }
    const struct record *record = reading.test->record;
    struct err err = {0};
    BUF_AUTO struct buf first, second;
    buf_init(&first, JSON_BODY_MAX);
    buf_init(&second, JSON_BODY_MAX);
    assert_ok(wire_write(record, reading.value, &first, &err), &err);

    json_auto_t *document = NULL;
    json_auto_t *written = NULL;
    assert_ok(json_parse(text->data, text->size, &document, &err), &err);
    assert_ok(json_parse(first.data, first.size, &written, &err), &err);
    if (!holds(written, document)) {
        fail_msg("%s: %s", name, first.data);
    }
    void *again = records_new(reading.test);
    assert_non_null(again);
    assert_ok(wire_read(record, first.data, first.size, again, &reading.faults, &err), &err);
    assert_ok(wire_write(record, again, &second, &err), &err);
    assert_string_equal(first.data, second.data);
    record_done(record, reading.value);
    record_done(record, again);
    free(reading.value);
    free(again);
}

/* What is accepted is written so that it is accepted again. */
static void check_read_again(const char *name, const json_t *document)
{
    struct err err = {0};
    BUF_AUTO struct buf text, first;
    buf_init(&text, JSON_BODY_MAX);
    buf_init(&first, JSON_BODY_MAX);
    assert_ok(json_write(document, &text, &err), &err);
    struct reading reading = {0};
    read_example(name, &text, &reading);
    if (!reading.rc) {
        const struct record *record = reading.test->record;
        assert_ok(wire_write(record, reading.value, &first, &err), &err);
        record_done(record, reading.value);
        struct reading again = {0};
        read_example(name, &first, &again);
        if (again.rc) {
            fail_msg("%s: %s\n%s", name, again.err.text, text.data);
        }
        record_done(record, again.value);
        free(again.value);
    }
    free(reading.value);
}

/* Recursion is bounded by the nesting of the examples. */
static void check_without_each_member(const char *name, const json_t *document, json_t *part)
{
    for (size_t i = 0; i < json_array_size(part); i++) {
        check_without_each_member(name, document, json_array_get(part, i));
    }
    json_auto_t *members = json_copy(part);
    const char *member;
    json_t *value;
    json_object_foreach(members, member, value)
    {
        check_without_each_member(name, document, value);
        assert_int_equal(json_object_del(part, member), 0);
        check_read_again(name, document);
        assert_int_equal(json_object_set(part, member, value), 0);
    }
}

static void check_members(const char *name, const struct buf *text)
{
    struct err err = {0};
    json_auto_t *document = NULL;
    assert_ok(json_parse(text->data, text->size, &document, &err), &err);
    check_without_each_member(name, document, document);
}

static void check_invalid(const char *name, const struct buf *text)
{
    struct reading reading = {0};
    read_example(name, text, &reading);
    free(reading.value);
    if (!reading.rc) {
        fail_msg("%s: was taken", name);
    }
    const struct record_faults *faults = &reading.faults;
    struct err err = {0};
    BUF_AUTO struct buf found;
    buf_init(&found, 1 << 16);
    for (size_t i = 0; i < faults->count; i++) {
        assert_ok(buf_printf(&found, &err, "%s: %s\n", faults->fault[i].pointer,
                             faults->fault[i].message),
                  &err);
    }
    if (faults->count == 0) {
        assert_ok(buf_printf(&found, &err, "%s\n", reading.err.text), &err);
    }
    char beside[512];
    (void)snprintf(beside, sizeof(beside), "schema/examples/invalid/%.*s.txt",
                   (int)(strlen(name) - 5), name);
    BUF_AUTO struct buf expected;
    buf_init(&expected, 1 << 16);
    assert_ok(file_read(test_data_path(beside).text, &expected, &err), &err);
    if (strcmp(found.data, expected.data) != 0) {
        fail_msg("%s: found\n%sexpected\n%s", name, found.data, expected.data);
    }
}

static bool is_json(const char *name)
{
    size_t size = strlen(name);
    return size > 5 && strcmp(name + size - 5, ".json") == 0;
}

/* Returns how many examples there are; `seen` counts them for each record. */
static size_t walk(const char *folder, void (*check)(const char *name, const struct buf *text),
                   size_t *seen)
{
    struct test_path directory = test_data_path(folder);
    struct dirent **entries = NULL;
    int count = scandir(directory.text, &entries, NULL, alphasort);
    assert_true(count > 0);
    size_t checked = 0;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (is_json(name)) {
            struct err err = {0};
            BUF_AUTO struct buf text;
            buf_init(&text, JSON_BODY_MAX);
            assert_ok(file_read(test_path_in(directory.text, name).text, &text, &err), &err);
            check(name, &text);
            const struct records_entry *test = records_find(name);
            assert_non_null(test);
            seen[test - records_all]++;
            checked++;
        }
        free(entries[i]);
    }
    free(entries);
    return checked;
}

static void valid_examples_are_read_written_and_read_again_the_same(void **state)
{
    (void)state;
    size_t seen[64] = {0};
    assert_true(records_count <= 64);
    (void)walk("schema/examples/valid", check_valid, seen);
    for (size_t i = 0; i < records_count; i++) {
        if (seen[i] == 0) {
            fail_msg("no valid example of record '%s'", records_all[i].record->name);
        }
    }
}

static void what_is_accepted_without_a_member_is_accepted_again_when_written(void **state)
{
    (void)state;
    size_t seen[64] = {0};
    assert_true(walk("schema/examples/valid", check_members, seen) > 0);
}

static void invalid_examples_give_exactly_the_stated_faults(void **state)
{
    (void)state;
    size_t seen[64] = {0};
    assert_true(walk("schema/examples/invalid", check_invalid, seen) >= 10);
    static const char *const inputs[] = {"job_spec",  "replan_request", "enroll_request",
                                         "heartbeat", "assignment",     "plan_question"};
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        if (seen[records_find(inputs[i]) - records_all] == 0) {
            fail_msg("no invalid example of '%s'", inputs[i]);
        }
    }
}

/* Recursion is bounded by the nesting of the tables. */
static void check_no_default_where_left_out(const struct record *record, const char *value)
{
    json_auto_t *written = record_write(record, value);
    assert_non_null(written);
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        if ((field->flags & FIELD_SKIP_EMPTY) && json_object_get(written, field->name)) {
            fail_msg("%s.%s has a default: left out for zero, it is read as the default",
                     record->name, field->name);
        }
        if (field->type == FIELD_RECORD) {
            check_no_default_where_left_out(field->record, value + field->offset);
        }
    }
}

static void a_field_that_is_left_out_for_zero_has_no_other_default(void **state)
{
    (void)state;
    for (size_t i = 0; i < records_count; i++) {
        void *value = records_new(&records_all[i]);
        assert_non_null(value);
        check_no_default_where_left_out(records_all[i].record, value);
        record_done(records_all[i].record, value);
        free(value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_examples_are_read_written_and_read_again_the_same),
        cmocka_unit_test(what_is_accepted_without_a_member_is_accepted_again_when_written),
        cmocka_unit_test(invalid_examples_give_exactly_the_stated_faults),
        cmocka_unit_test(a_field_that_is_left_out_for_zero_has_no_other_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
