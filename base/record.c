#include "base/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/record_fault.h"
#include "base/record_parts.h"

#define FIELDS_MAX 96  /* of one record */
#define QUOTE_BYTES 48 /* of a text from outside that a message shows */

static bool bounded(const struct field *field)
{
    return field->min < 0 || field->min > 0 || field->max < 0 || field->max > 0;
}

/* Bounds are doubles and an int64_t may not fit one: compare as integers, so that 2^53 + 1 is above
 * 2^53. */
static bool int_below(int64_t value, double min)
{
    return min >= 0x1p63 || (min > -0x1p63 && value < (int64_t)ceil(min));
}

static bool int_above(int64_t value, double max)
{
    return max < -0x1p63 || (max < 0x1p63 && value > (int64_t)floor(max));
}

static void out_of_range(struct record_reader *reader, const struct record_place *place,
                         const struct field *field, bool below)
{
    double bound = below ? field->min : field->max;
    bool whole = fabs(bound) < 0x1p63 && floor(bound) >= bound;
    record_fault_add(reader, place, whole ? "must be at %s %.0f" : "must be at %s %.15g",
                     below ? "least" : "most", bound);
}

static void read_int(struct record_reader *reader, const struct record_place *place,
                     const struct field *field, const json_t *value, void *out)
{
    if (json_is_real(value)) {
        record_fault_add(reader, place,
                         "expected an integer, got a number with a fraction or exponent");
        return;
    }
    if (!record_fault_expect(reader, place, value, json_is_integer(value), "an integer")) {
        return;
    }
    int64_t number = json_integer_value(value);
    bool below = bounded(field) && int_below(number, field->min);
    if (below || (bounded(field) && int_above(number, field->max))) {
        out_of_range(reader, place, field, below);
        return;
    }
    record_set_int(field, number, out);
}

static void read_double(struct record_reader *reader, const struct record_place *place,
                        const struct field *field, const json_t *value, double *out)
{
    if (!record_fault_expect(reader, place, value, json_is_number(value), "a number")) {
        return;
    }
    double number = json_number_value(value);
    if (!isfinite(number)) {
        record_fault_add(reader, place, "must be finite");
        return;
    }
    bool below = bounded(field) && number < field->min;
    if (below || (bounded(field) && number > field->max)) {
        out_of_range(reader, place, field, below);
        return;
    }
    *out = number;
}

static void take_text(struct record_reader *reader, const struct record_place *place,
                      const struct field *field, const char *text, size_t size, char *out)
{
    if (size >= field->size) {
        record_fault_add(reader, place, "is %zu bytes long; at most %zu are allowed", size,
                         field->size - 1);
    } else if (memchr(text, '\0', size)) {
        record_fault_add(reader, place, "holds a NUL character");
    } else if (field->form && !field->form->valid(text)) {
        record_fault_add(reader, place, "'%.*s' is not %s", QUOTE_BYTES, text,
                         field->form->expected);
    } else {
        memcpy(out, text, size + 1);
    }
}

static void read_text(struct record_reader *reader, const struct record_place *place,
                      const struct field *field, const json_t *value, char *out)
{
    if (record_fault_expect(reader, place, value, json_is_string(value), "a string")) {
        take_text(reader, place, field, json_string_value(value), json_string_length(value), out);
    }
}

static size_t count_names(const char *const *names)
{
    size_t count = 0;
    while (names[count]) {
        count++;
    }
    return count;
}

/* Return the index of the text; the number of names: not among them. */
static size_t find_name(const char *const *names, const char *text)
{
    size_t i = 0;
    while (names[i] && strcmp(text, names[i]) != 0) {
        i++;
    }
    return i;
}

static void list_names(const char *const *names, char out[RECORD_MESSAGE_MAX])
{
    size_t size = 0;
    out[0] = '\0';
    for (size_t i = 0; names[i] && size < RECORD_MESSAGE_MAX; i++) {
        int added =
            snprintf(out + size, RECORD_MESSAGE_MAX - size, "%s%s", i == 0 ? "" : ", ", names[i]);
        size += added < 0 ? 0 : (size_t)added;
    }
}

static void read_enum(struct record_reader *reader, const struct record_place *place,
                      const struct field *field, const json_t *value, int *out)
{
    if (!record_fault_expect(reader, place, value, json_is_string(value), "a string")) {
        return;
    }
    const char *text = json_string_value(value);
    size_t count = count_names(field->names);
    const size_t found = find_name(field->names, text);
    if (found < count) {
        *out = (int)found;
        return;
    }
    if (count == 1) {
        record_fault_add(reader, place, "unknown value '%.*s'; only '%s' is offered", QUOTE_BYTES,
                         text, field->names[0]);
        return;
    }
    char list[RECORD_MESSAGE_MAX];
    list_names(field->names, list);
    record_fault_add(reader, place, "unknown value '%.*s'; expected one of %s", QUOTE_BYTES, text,
                     list);
}

static void read_time(struct record_reader *reader, const struct record_place *place,
                      const json_t *value, int64_t *out)
{
    if (!record_fault_expect(reader, place, value, json_is_string(value), "a string")) {
        return;
    }
    if (clock_parse_rfc3339(json_string_value(value), out, NULL)) {
        record_fault_add(reader, place,
                         "'%.*s' is not a time; expected RFC 3339 such as 2026-01-31T12:00:00Z",
                         QUOTE_BYTES, json_string_value(value));
    }
}

static void read_record(struct record_reader *reader, const struct record_place *place,
                        const struct record *record, const json_t *value, char *out);
static void read_value(struct record_reader *reader, const struct record_place *place,
                       const struct field *field, json_t *value, char *base);

static bool expect_count(struct record_reader *reader, const struct record_place *place,
                         const struct field *field, size_t count)
{
    size_t most = field->max > 0 ? (size_t)field->max : field->size;
    ASSERT(most <= field->size);
    const char *plural = count == 1 ? "" : "s";
    if (count > most) {
        record_fault_add(reader, place, "has %zu element%s; at most %zu are allowed", count, plural,
                         most);
        return false;
    }
    if ((double)count < field->min) {
        record_fault_add(reader, place, "has %zu element%s; at least %.0f are needed", count,
                         plural, field->min);
        return false;
    }
    return true;
}

static void read_map(struct record_reader *reader, const struct record_place *place,
                     const struct field *field, const json_t *value, char *base)
{
    if (!record_fault_expect(reader, place, value, json_is_object(value), "an object") ||
        !expect_count(reader, place, field, json_object_size(value))) {
        return;
    }
    const struct field *name_field = &field->record->fields[0];
    const struct field *value_field = &field->record->fields[1];
    ASSERT(field->record->field_count == 2 && name_field->type == FIELD_TEXT &&
           value_field->type == FIELD_TEXT);
    char *element = base + field->offset;
    *record_count(field, base) = json_object_size(value);
    /* jansson iterates through a pointer that is not const, and changes nothing. */
    json_t *object = (json_t *)(uintptr_t)value;
    for (void *member = json_object_iter(object); member;
         member = json_object_iter_next(object, member)) {
        struct record_place here = {.parent = place, .name = json_object_iter_key(member)};
        take_text(reader, &here, name_field, here.name, strlen(here.name),
                  element + name_field->offset);
        read_text(reader, &here, value_field, json_object_iter_value(member),
                  element + value_field->offset);
        element += field->element_size;
    }
}

/* A field that this version does not support has one allowed value in its table. */
static void read_constant(struct record_reader *reader, const struct record_place *place,
                          const struct field *field, const json_t *value)
{
    json_auto_t *constant = json_loads(field->constant, JSON_DECODE_ANY, NULL);
    if (!constant || !json_equal(constant, value)) {
        record_fault_add(reader, place, "not supported by this version; leave it out or use %s",
                         field->constant);
    }
}

static void read_list(struct record_reader *reader, const struct record_place *place,
                      const struct field *field, const json_t *value, char *base)
{
    if (!record_fault_expect(reader, place, value, json_is_array(value), "an array") ||
        !expect_count(reader, place, field, json_array_size(value))) {
        return;
    }
    size_t count = json_array_size(value);
    const struct field element = record_element(field);
    char *elements = base + field->offset;
    size_t *stored = record_count(field, base);
    for (size_t i = count; i < *stored; i++) {
        record_clear_field(&element, elements + i * field->element_size);
    }
    *stored = count;
    for (size_t i = 0; i < count; i++) {
        struct record_place here = {.parent = place, .index = i};
        read_value(reader, &here, &element, json_array_get(value, i),
                   elements + i * field->element_size);
    }
}

/* A list, or the value of the field that takes its place. */
static void read_either(struct record_reader *reader, const struct record_place *place,
                        const struct field *field, json_t *value, char *base)
{
    const struct field *instead = field->instead;
    const bool word = instead->type == FIELD_ENUM;
    void *at = base + instead->offset;
    char names[RECORD_MESSAGE_MAX], wanted[RECORD_MESSAGE_MAX + 24] = "an integer or an array";
    ASSERT(field->min >= 1 && (word || instead->type == FIELD_INT));
    if (json_is_array(value)) {
        read_list(reader, place, field, value, base);
        if (word) {
            *(int *)at = (int)count_names(instead->names);
        } else {
            record_set_int(instead, (int64_t)*record_count(field, base), at);
        }
        return;
    }
    record_clear_field(field, base);
    if (json_is_null(value) && (instead->flags & FIELD_NULLABLE)) {
        return;
    }
    if (word) {
        list_names(instead->names, names);
        (void)snprintf(wanted, sizeof(wanted), "one of %s, or an array", names);
    }
    const char *text = json_string_value(value);
    if (word && text && find_name(instead->names, text) == count_names(instead->names)) {
        record_fault_add(reader, place, "unknown value '%.*s'; expected %s", QUOTE_BYTES, text,
                         wanted);
    } else if (record_fault_expect(reader, place, value,
                                   word ? text != NULL : json_is_integer(value), wanted)) {
        read_value(reader, place, instead, value, base);
    }
}

static void read_json(json_t *value, json_t **out)
{
    json_t *old = *out;
    *out = json_incref(value);
    json_decref(old);
}

/* null would say the same as an object that gives no member, and says it plainly. */
static void refuse_empty(struct record_reader *reader, const struct record_place *place,
                         const struct field *field, const json_t *value, const char *at)
{
    const struct field *of = field->record->fields;
    const bool read = json_is_object(value) && (json_object_size(value) == 0 || !reader->failed);
    const bool null_is_empty = (field->flags & FIELD_NULLABLE) && field->record->first_alone;
    if (null_is_empty && read && record_all_zero(field->record, at)) {
        record_fault_add(reader, place, "needs '%s' or '%s', or null", of[0].name, of[1].name);
    }
}

static void read_value(struct record_reader *reader, const struct record_place *place,
                       const struct field *field, json_t *value, char *base)
{
    if (json_is_null(value) && (field->flags & FIELD_NULLABLE)) {
        record_clear_field(field, base);
        return;
    }
    if (record_has_presence(field)) {
        *record_presence(field, base) = true;
    }
    void *at = base + field->offset;
    switch (field->type) {
    case FIELD_BOOL:
        if (record_fault_expect(reader, place, value, json_is_boolean(value), "a boolean")) {
            *(bool *)at = json_is_true(value);
        }
        break;
    case FIELD_INT: read_int(reader, place, field, value, at); break;
    case FIELD_DOUBLE: read_double(reader, place, field, value, at); break;
    case FIELD_TEXT: read_text(reader, place, field, value, at); break;
    case FIELD_ENUM: read_enum(reader, place, field, value, at); break;
    case FIELD_TIME: read_time(reader, place, value, at); break;
    case FIELD_RECORD:
        read_record(reader, place, field->record, value, at);
        refuse_empty(reader, place, field, value, at);
        break;
    case FIELD_LIST:
        if (field->instead) {
            read_either(reader, place, field, value, base);
        } else {
            read_list(reader, place, field, value, base);
        }
        break;
    case FIELD_MAP: read_map(reader, place, field, value, base); break;
    case FIELD_JSON: read_json(value, at); break;
    case FIELD_CONSTANT: read_constant(reader, place, field, value); break;
    }
}

#define MEMBERS_SHOWN 8

/* "an object with the members type, value, ...": what can be given there. */
static void describe_object(const struct record *record, int version, char out[RECORD_MESSAGE_MAX])
{
    size_t used = (size_t)snprintf(out, RECORD_MESSAGE_MAX, "an object");
    size_t shown = 0;
    for (size_t i = 0; i < record->field_count && used + 1 < RECORD_MESSAGE_MAX; i++) {
        const struct field *field = &record->fields[i];
        if ((field->flags & FIELD_OUTPUT) || field->type == FIELD_CONSTANT ||
            !record_has(field, version) || shown > MEMBERS_SHOWN) {
            continue;
        }
        used += (size_t)snprintf(out + used, RECORD_MESSAGE_MAX - used, "%s%s",
                                 shown ? ", " : " with the members ",
                                 shown == MEMBERS_SHOWN ? "..." : field->name);
        shown++;
    }
}

static bool is_read(const struct field *field, int version)
{
    return !(field->flags & FIELD_OUTPUT) && record_has(field, version);
}

/* The member of the record that is an object with a member of this name, "init" for "seed"; NULL:
 * none. */
static const char *owner_of(const struct record *record, int version, const char *name)
{
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *group = &record->fields[i];
        const struct record *inner =
            group->type == FIELD_RECORD && is_read(group, version) ? group->record : NULL;
        for (size_t k = 0; inner && k < inner->field_count; k++) {
            if (is_read(&inner->fields[k], version) && strcmp(inner->fields[k].name, name) == 0) {
                return group->name;
            }
        }
    }
    return NULL;
}

/* Faults for the members that the table does not know. They come first: a misspelled name explains
 * why another is missing. */
static void refuse_unknown(struct record_reader *reader, const struct record_place *place,
                           const struct record *record, const json_t *value)
{
    const char *names[FIELDS_MAX];
    size_t known = 0;
    size_t candidates = 0;
    ASSERT(record->field_count <= FIELDS_MAX);
    for (size_t i = 0; i < record->field_count; i++) {
        if (!record_has(&record->fields[i], reader->version)) {
            continue;
        }
        known += json_object_get(value, record->fields[i].name) != NULL;
        if (!(record->fields[i].flags & FIELD_OUTPUT)) {
            names[candidates++] = record->fields[i].name;
        }
    }
    if (known == json_object_size(value)) {
        return;
    }
    /* jansson iterates through a pointer that is not const, and changes nothing. */
    json_t *object = (json_t *)(uintptr_t)value;
    for (void *member = json_object_iter(object); member && !record_fault_full(reader);
         member = json_object_iter_next(object, member)) {
        struct record_place here = {.parent = place, .name = json_object_iter_key(member)};
        bool found = false;
        for (size_t i = 0; i < record->field_count && !found; i++) {
            found = record_has(&record->fields[i], reader->version) &&
                    strcmp(record->fields[i].name, here.name) == 0;
        }
        const char *owner = found ? NULL : owner_of(record, reader->version, here.name);
        const char *nearest = found ? NULL : parse_nearest(here.name, names, candidates);
        if (owner) {
            record_fault_add(reader, &here, "unknown field; did you mean '%s.%s'?", owner,
                             here.name);
        } else if (nearest) {
            record_fault_add(reader, &here, "unknown field; did you mean '%s'?", nearest);
        } else if (!found) {
            record_fault_add(reader, &here, "unknown field");
        }
    }
}

/* member: NULL if it is absent. */
static void read_member(struct record_reader *reader, const struct record_place *place,
                        const struct record *record, const struct field *field, json_t *member,
                        char *out)
{
    const struct record_place here = {.parent = place, .name = field->name};
    const bool *unless = record_unless(record, field, out);
    const bool excluded = unless && *unless;
    if (excluded && member) {
        record_fault_add(reader, &here, "is not allowed with '%s'", field->unless);
    } else if (excluded) {
        record_clear_field(field, out);
    } else if (!member && (field->flags & FIELD_REQUIRED)) {
        record_fault_add(reader, &here, field->unless ? "is required without '%s'" : "is required",
                         field->unless);
    } else if (member && (field->flags & FIELD_OUTPUT)) {
        record_fault_add(reader, &here, "is read-only");
    } else if (member) {
        read_value(reader, &here, field, member, out);
    }
}

static void read_record(struct record_reader *reader, const struct record_place *place,
                        const struct record *record, const json_t *value, char *out)
{
    char wanted[RECORD_MESSAGE_MAX] = "an object";
    if (record->first_alone && json_is_string(value)) {
        json_t *text = (json_t *)(uintptr_t)value;
        read_value(reader, place, &record->fields[0], text, out);
        return;
    }
    if (place && !json_is_object(value)) {
        describe_object(record, reader->version, wanted);
    }
    if (!record_fault_expect(reader, place, value, json_is_object(value), wanted)) {
        return;
    }
    refuse_unknown(reader, place, record, value);
    for (size_t i = 0; i < 2 * record->field_count; i++) {
        const struct field *field = &record->fields[i % record->field_count];
        const bool last = i >= record->field_count; /* those that others may exclude */
        if (record_has(field, reader->version) && last == (field->unless != NULL)) {
            read_member(reader, place, record, field, json_object_get(value, field->name), out);
        }
    }
}

int record_read_version(const struct record *record, int version, const json_t *value,
                        const char *base_pointer, void *out, struct record_faults *faults,
                        struct err *err)
{
    struct record_reader reader = {
        .base_pointer = base_pointer, .version = version, .faults = faults};
    read_record(&reader, NULL, record, value, out);
    if (!reader.failed) {
        return 0;
    }
    const char *where = reader.first.pointer[0] ? reader.first.pointer : record->name;
    return err_set(err, ERR_INVALID, "%s: %s", where, reader.first.message);
}

int record_read(const struct record *record, const json_t *value, const char *base_pointer,
                void *out, struct record_faults *faults, struct err *err)
{
    return record_read_version(record, RECORD_NEWEST, value, base_pointer, out, faults, err);
}
