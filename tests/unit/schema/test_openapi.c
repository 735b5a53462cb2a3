/* The contract and the tables agree on names, types, null, bounds, words, required fields, defaults
 * and errors. */
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "schema/job.h"
#include "schema/openapi.h"
#include "schema/problem.h"
#include "schema/records.h"

static int load(void **state)
{
    size_t size = 0;
    const char *text = openapi_json(&size);
    json_t *contract = NULL;
    struct err err = {0};
    if (json_parse(text, size, &contract, &err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    *state = contract;
    return 0;
}

static int unload(void **state)
{
    json_decref(*state);
    return 0;
}

static const json_t *schema_named(const json_t *contract, const char *name)
{
    return json_object_get(json_object_get(json_object_get(contract, "components"), "schemas"),
                           name);
}

static const json_t *resolve(const json_t *contract, const json_t *schema)
{
    static const char prefix[] = "#/components/schemas/";
    const char *target = json_string_value(json_object_get(schema, "$ref"));
    if (!target) {
        return schema;
    }
    assert_memory_equal(target, prefix, sizeof(prefix) - 1);
    return schema_named(contract, target + sizeof(prefix) - 1);
}

static bool array_holds(const json_t *array, const char *text)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *item = json_string_value(json_array_get(array, i));
        if (item && strcmp(item, text) == 0) {
            return true;
        }
    }
    return false;
}

#define expect(condition, where, ...)                                                              \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_error("%s: ", (where));                                                          \
            print_error(__VA_ARGS__);                                                              \
            print_error("\n");                                                                     \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

static void compare_type(const json_t *schema, const struct field *field, const char *wanted,
                         const char *where)
{
    const json_t *type = json_object_get(schema, "type");
    const char *name = json_string_value(json_is_array(type) ? json_array_get(type, 0) : type);
    bool nullable = json_is_array(type) && json_array_size(type) == 2 && array_holds(type, "null");
    expect(name && strcmp(name, wanted) == 0, where, "type is %s, expected %s",
           name ? name : "missing", wanted);
    expect(nullable == ((field->flags & FIELD_NULLABLE) != 0), where,
           "null is allowed on one side only");
}

static void compare_bound(const json_t *schema, const char *name, bool stated, double bound,
                          const char *where)
{
    const json_t *value = json_object_get(schema, name);
    expect((value != NULL) == stated, where, "%s is stated on one side only", name);
    expect(!stated || fabs(json_number_value(value) - bound) <= 0, where, "%s differs", name);
}

static void compare_numbers(const json_t *schema, const struct field *field, const char *where)
{
    bool bounded = field->min < 0 || field->min > 0 || field->max < 0 || field->max > 0;
    compare_bound(schema, "minimum", bounded, field->min, where);
    /* A bound that no number of JSON exceeds is left out. */
    compare_bound(schema, "maximum", bounded && field->max < 0x1p63, field->max, where);
}

static void compare_words(const json_t *schema, const struct field *field, const char *where)
{
    const json_t *words = json_object_get(schema, "enum");
    size_t count = 0;
    for (; field->names[count]; count++) {
        expect(array_holds(words, field->names[count]), where, "enum lacks %s",
               field->names[count]);
    }
    count += (field->flags & FIELD_NULLABLE) != 0; /* null */
    expect(json_array_size(words) == count, where, "enum has %zu words, expected %zu",
           json_array_size(words), count);
}

static void compare_text(const json_t *schema, const struct field *field, const char *where)
{
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    expect((pattern != NULL) == (field->form != NULL), where, "a form is stated on one side only");
    const json_t *length = json_object_get(schema, "maxLength");
    expect(length || pattern || json_object_get(schema, "enum"), where, "maxLength is missing");
    expect(!length || json_integer_value(length) == (json_int_t)field->size - 1, where,
           "maxLength differs");
}

/* Any object: its content is stated by hand, if at all. */
static void compare_object(const json_t *contract, const json_t *schema, const struct field *field,
                           const char *where)
{
    const json_t *choices = json_object_get(schema, "oneOf");
    if (!choices) {
        compare_type(schema, field, "object", where);
        return;
    }
    const struct field there = {.type = FIELD_JSON};
    /* Tables by name are objects; the groups of sub-models have no names. */
    const char *kind = strcmp(field->name, "groups") == 0 ? "array" : "object";
    compare_type(resolve(contract, json_array_get(choices, 0)), &there, kind, where);
    expect(field->flags & FIELD_NULLABLE, where, "null is allowed on one side only");
}

static void compare_record(const json_t *contract, const json_t *schema,
                           const struct record *record, const char *where);

static void compare_field(const json_t *contract, const json_t *stated, const struct field *field,
                          const char *where)
{
    const json_t *schema = resolve(contract, stated);
    switch (field->type) {
    case FIELD_BOOL: compare_type(schema, field, "boolean", where); break;
    case FIELD_INT:
    case FIELD_DOUBLE:
        compare_type(schema, field, field->type == FIELD_INT ? "integer" : "number", where);
        compare_numbers(schema, field, where);
        break;
    case FIELD_TEXT:
        compare_type(schema, field, "string", where);
        compare_text(schema, field, where);
        break;
    case FIELD_ENUM:
        compare_type(schema, field, "string", where);
        compare_words(schema, field, where);
        break;
    case FIELD_TIME: compare_type(schema, field, "string", where); break;
    case FIELD_RECORD: {
        const json_t *choices = json_object_get(schema, "oneOf");
        if (field->record->first_alone) {
            const json_t *first = resolve(contract, json_array_get(choices, 0));
            compare_type(first, &field->record->fields[0], "string", where);
            expect(json_array_size(choices) == (field->flags & FIELD_NULLABLE ? 3 : 2), where,
                   "null is allowed on one side only");
            compare_record(contract, resolve(contract, json_array_get(choices, 1)), field->record,
                           where);
            break;
        }
        expect((choices != NULL) == ((field->flags & FIELD_NULLABLE) != 0), where,
               "null is allowed on one side only");
        compare_record(contract, choices ? resolve(contract, json_array_get(choices, 0)) : schema,
                       field->record, where);
        break;
    }
    case FIELD_LIST: {
        const struct field element =
            field->element ? *field->element
                           : (struct field){.type = FIELD_RECORD, .record = field->record};
        if (field->instead) {
            const json_t *choices = json_object_get(schema, "oneOf");
            compare_field(contract, json_array_get(choices, 0), field->instead, where);
            schema = json_array_get(choices, 1);
        }
        compare_type(schema, field, "array", where);
        compare_bound(schema, "maxItems", true, field->max > 0 ? field->max : (double)field->size,
                      where);
        compare_field(contract, json_object_get(schema, "items"), &element, where);
        break;
    }
    case FIELD_MAP:
        compare_type(schema, field, "object", where);
        compare_bound(schema, "maxProperties", true, (double)field->size, where);
        break;
    case FIELD_JSON: compare_object(contract, schema, field, where); break;
    case FIELD_CONSTANT: {
        json_auto_t *constant = json_loads(field->constant, JSON_DECODE_ANY, NULL);
        expect(json_equal(constant, json_object_get(schema, "const")), where, "const differs");
        break;
    }
    }
}

static bool is_required(const struct record *record, const struct field *field)
{
    bool written =
        record->answer && !(field->flags & (FIELD_ADDED | FIELD_SKIP_EMPTY | FIELD_INPUT));
    return (written || (field->flags & FIELD_REQUIRED) != 0) && !field->unless;
}

static void compare_record(const json_t *contract, const json_t *schema,
                           const struct record *record, const char *where)
{
    expect(json_is_object(schema), where, "no schema");
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *required = json_object_get(schema, "required");
    expect(json_is_false(json_object_get(schema, "additionalProperties")), where,
           "additionalProperties is not false");
    expect(json_object_size(properties) == record->field_count, where,
           "has %zu properties, the table %zu", json_object_size(properties), record->field_count);
    size_t needed = 0;
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        char place[256];
        (void)snprintf(place, sizeof(place), "%s.%s", where, field->name);
        const json_t *property = json_object_get(properties, field->name);
        expect(property, place, "is missing in openapi.yaml");
        compare_field(contract, property, field, place);
        needed += is_required(record, field);
        expect(!is_required(record, field) || array_holds(required, field->name), place,
               "is not required");
    }
    expect(json_array_size(required) == needed, where, "requires %zu properties, the table %zu",
           json_array_size(required), needed);
}

static void the_contract_and_the_tables_agree(void **state)
{
    for (size_t i = 0; i < records_count; i++) {
        const struct record *record = records_all[i].record;
        if (strcmp(record->name, "center_unit") != 0) { /* a row of the store, never sent */
            compare_record(*state, schema_named(*state, record->name), record, record->name);
        }
    }
}

static void compare_defaults(const json_t *contract, const json_t *schema, const json_t *value,
                             const char *where)
{
    const char *name;
    json_t *property;
    json_t *properties = json_object_get(schema, "properties");
    json_object_foreach(properties, name, property)
    {
        char place[256];
        (void)snprintf(place, sizeof(place), "%s.%s", where, name);
        const json_t *stated = json_object_get(property, "default");
        const json_t *member = json_object_get(value, name);
        if (stated) {
            expect(json_equal(stated, member), place, "the default differs");
        } else if (json_is_object(member)) {
            compare_defaults(contract, resolve(contract, property), member, place);
        } else {
            /* Only required fields of a job have no default. */
            expect(array_holds(json_object_get(schema, "required"), name) ||
                       strcmp(where, "job_spec.model") == 0,
                   place, "states no default");
        }
    }
}

static void the_contract_states_the_defaults_of_a_job(void **state)
{
    json_auto_t *defaults = record_write(&job_spec_record, &job_spec_default);
    assert_non_null(defaults);
    compare_defaults(*state, schema_named(*state, "job_spec"), defaults, "job_spec");
}

static void the_contract_knows_exactly_the_error_codes(void **state)
{
    const json_t *codes = json_object_get(schema_named(*state, "problem_code"), "enum");
    assert_int_equal(json_array_size(codes), PROBLEM_COUNT - 1);
    for (int i = PROBLEM_NONE + 1; i < PROBLEM_COUNT; i++) {
        expect(array_holds(codes, problem_kinds[i].code), problem_kinds[i].code,
               "is not in openapi.yaml");
    }
}

/* Call visit for every operation of every path. */
static void each_operation(const json_t *contract,
                           void (*visit)(const json_t *operation, const char *path,
                                         const char *method, void *arg),
                           void *arg)
{
    const char *path;
    json_t *item;
    json_t *paths = json_object_get(contract, "paths");
    json_object_foreach(paths, path, item)
    {
        const char *method;
        json_t *operation;
        json_object_foreach(item, method, operation)
        {
            if (strcmp(method, "parameters") != 0) {
                visit(operation, path, method, arg);
            }
        }
    }
}

static void note_problems(const json_t *list, bool noted[PROBLEM_COUNT], const char *where)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *code = json_string_value(json_array_get(list, i));
        int found = PROBLEM_NONE + 1;
        while (found < PROBLEM_COUNT && strcmp(problem_kinds[found].code, code) != 0) {
            found++;
        }
        expect(found < PROBLEM_COUNT, where, "unknown problem %s", code);
        noted[found] = true;
    }
}

static void note_operation(const json_t *operation, const char *path, const char *method, void *arg)
{
    (void)method;
    note_problems(json_object_get(operation, "x-problems"), arg, path);
}

static void every_error_code_is_answered_by_some_operation(void **state)
{
    bool noted[PROBLEM_COUNT] = {false};
    note_problems(json_object_get(json_object_get(*state, "info"), "x-problems"), noted, "info");
    each_operation(*state, note_operation, noted);
    for (int i = PROBLEM_NONE + 1; i < PROBLEM_COUNT; i++) {
        expect(noted[i], problem_kinds[i].code, "no operation states it");
    }
}

static void check_operation(const json_t *operation, const char *path, const char *method,
                            void *arg)
{
    size_t *operations = arg;
    expect(json_is_string(json_object_get(operation, "operationId")), path, "%s has no id", method);
    expect(json_is_string(json_object_get(operation, "summary")), path, "%s has no summary",
           method);
    expect(json_object_get(json_object_get(operation, "responses"), "default"), path,
           "%s states no problem", method);
    (*operations)++;
}

static void every_operation_has_an_id_a_summary_and_a_problem_answer(void **state)
{
    size_t operations = 0;
    each_operation(*state, check_operation, &operations);
    assert_true(operations >= 35);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_contract_and_the_tables_agree),
        cmocka_unit_test(the_contract_states_the_defaults_of_a_job),
        cmocka_unit_test(the_contract_knows_exactly_the_error_codes),
        cmocka_unit_test(every_error_code_is_answered_by_some_operation),
        cmocka_unit_test(every_operation_has_an_id_a_summary_and_a_problem_answer),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
