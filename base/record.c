#include "base/record.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/record_parts.h"
#include "base/utf8.h"

#define FIELDS_MAX 96  /* of one record */
#define QUOTE_BYTES 48 /* of a text from outside that a message shows */

/* Where the reader is: a chain of names and indices on the stack, turned into text only when there
 * is a fault. */
struct place {
    const struct place *parent; /* NULL at the top */
    const char *name;           /* NULL: an element of a list */
    size_t index;
};

struct reader {
    const char *base_pointer;
    struct record_faults *faults;
    struct record_fault first;
    bool failed;
};

static void cut(char *text, size_t capacity, int length)
{
    if (length < 0) {
        text[0] = '\0';
    } else if ((size_t)length >= capacity) {
        utf8_mark_cut(text, capacity);
    }
    utf8_repair_line(text);
}

static void keep_fault(struct record_faults *faults, const struct record_fault *fault)
{
    if (faults->count == RECORD_FAULTS_MAX) {
        faults->more = true;
        return;
    }
    faults->fault[faults->count++] = *fault;
}

static void PRINTF_LIKE(3, 0) set_fault(struct record_fault *fault, const char *pointer,
                                        const char *format, va_list arguments)
{
    cut(fault->pointer, sizeof(fault->pointer),
        snprintf(fault->pointer, sizeof(fault->pointer), "%s", pointer));
    cut(fault->message, sizeof(fault->message),
        vsnprintf(fault->message, sizeof(fault->message), format, arguments));
}

void record_fault(struct record_faults *faults, const char *pointer, const char *format, ...)
{
    struct record_fault fault;
    va_list arguments;
    va_start(arguments, format);
    set_fault(&fault, pointer, format, arguments);
    va_end(arguments);
    keep_fault(faults, &fault);
}

/* One byte more than a pointer may hold, so that a text that fills it is seen to be cut. */
struct pointer_text {
    char text[RECORD_POINTER_MAX + 1];
    size_t size;
};

static void put(struct pointer_text *out, char c)
{
    if (out->size + 1 < sizeof(out->text)) {
        out->text[out->size++] = c;
        out->text[out->size] = '\0';
    }
}

/* RFC 6901: '~' is written ~0 and '/' ~1. */
static void put_escaped(struct pointer_text *out, const char *name)
{
    put(out, '/');
    for (; *name; name++) {
        if (*name == '~' || *name == '/') {
            put(out, '~');
            put(out, *name == '~' ? '0' : '1');
        } else {
            put(out, *name);
        }
    }
}

/* Recursion is bounded by the nesting of the tables. */
static void put_place(struct pointer_text *out, const struct place *place)
{
    if (!place) {
        return;
    }
    put_place(out, place->parent);
    char number[24];
    (void)snprintf(number, sizeof(number), "%zu", place->index);
    put_escaped(out, place->name ? place->name : number);
}

/* Whether further faults are dropped. It bounds the time for a body with thousands of faults. */
static bool is_full(const struct reader *reader)
{
    return reader->failed && (!reader->faults || reader->faults->more);
}

static void PRINTF_LIKE(3, 4)
    add_fault(struct reader *reader, const struct place *place, const char *format, ...)
{
    if (is_full(reader)) {
        return;
    }
    struct pointer_text pointer = {.size = 0};
    for (const char *at = reader->base_pointer; *at; at++) {
        put(&pointer, *at);
    }
    put_place(&pointer, place);

    struct record_fault fault;
    va_list arguments;
    va_start(arguments, format);
    set_fault(&fault, pointer.text, format, arguments);
    va_end(arguments);
    if (!reader->failed) {
        reader->first = fault;
        reader->failed = true;
    }
    if (reader->faults) {
        keep_fault(reader->faults, &fault);
    }
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
    }
    return "an unknown type";
}

static bool expect(struct reader *reader, const struct place *place, const json_t *value, bool good,
                   const char *wanted)
{
    if (!good) {
        add_fault(reader, place, "expected %s, got %s", wanted, type_name(value));
    }
    return good;
}

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

static void out_of_range(struct reader *reader, const struct place *place,
                         const struct field *field, bool below)
{
    double bound = below ? field->min : field->max;
    bool whole = fabs(bound) < 0x1p63 && floor(bound) >= bound;
    add_fault(reader, place, whole ? "must be at %s %.0f" : "must be at %s %.15g",
              below ? "least" : "most", bound);
}

static void read_int(struct reader *reader, const struct place *place, const struct field *field,
                     const json_t *value, int64_t *out)
{
    if (json_is_real(value)) {
        add_fault(reader, place, "expected an integer, got a number with a fraction or exponent");
        return;
    }
    if (!expect(reader, place, value, json_is_integer(value), "an integer")) {
        return;
    }
    int64_t number = json_integer_value(value);
    bool below = bounded(field) && int_below(number, field->min);
    if (below || (bounded(field) && int_above(number, field->max))) {
        out_of_range(reader, place, field, below);
        return;
    }
    *out = number;
}

static void read_double(struct reader *reader, const struct place *place, const struct field *field,
                        const json_t *value, double *out)
{
    if (!expect(reader, place, value, json_is_number(value), "a number")) {
        return;
    }
    double number = json_number_value(value);
    if (!isfinite(number)) {
        add_fault(reader, place, "must be finite");
        return;
    }
    bool below = bounded(field) && number < field->min;
    if (below || (bounded(field) && number > field->max)) {
        out_of_range(reader, place, field, below);
        return;
    }
    *out = number;
}

static void take_text(struct reader *reader, const struct place *place, const struct field *field,
                      const char *text, size_t size, char *out)
{
    if (size >= field->size) {
        add_fault(reader, place, "is %zu bytes long; at most %zu are allowed", size,
                  field->size - 1);
    } else if (memchr(text, '\0', size)) {
        add_fault(reader, place, "holds a NUL character");
    } else if (field->form && !field->form->valid(text)) {
        add_fault(reader, place, "'%.*s' is not %s", QUOTE_BYTES, text, field->form->expected);
    } else {
        memcpy(out, text, size + 1);
    }
}

static void read_text(struct reader *reader, const struct place *place, const struct field *field,
                      const json_t *value, char *out)
{
    if (expect(reader, place, value, json_is_string(value), "a string")) {
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

static void read_enum(struct reader *reader, const struct place *place, const struct field *field,
                      const json_t *value, int *out)
{
    if (!expect(reader, place, value, json_is_string(value), "a string")) {
        return;
    }
    const char *text = json_string_value(value);
    size_t count = count_names(field->names);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, field->names[i]) == 0) {
            *out = (int)i;
            return;
        }
    }
    if (count == 1) {
        add_fault(reader, place, "unknown value '%.*s'; only '%s' is offered", QUOTE_BYTES, text,
                  field->names[0]);
        return;
    }
    char list[RECORD_MESSAGE_MAX] = "";
    size_t size = 0;
    for (size_t i = 0; i < count && size < sizeof(list); i++) {
        int added =
            snprintf(list + size, sizeof(list) - size, "%s%s", i == 0 ? "" : ", ", field->names[i]);
        size += added < 0 ? 0 : (size_t)added;
    }
    add_fault(reader, place, "unknown value '%.*s'; expected one of %s", QUOTE_BYTES, text, list);
}

static void read_time(struct reader *reader, const struct place *place, const json_t *value,
                      int64_t *out)
{
    if (!expect(reader, place, value, json_is_string(value), "a string")) {
        return;
    }
    if (clock_parse_rfc3339(json_string_value(value), out, NULL)) {
        add_fault(reader, place,
                  "'%.*s' is not a time; expected RFC 3339 such as 2026-01-31T12:00:00Z",
                  QUOTE_BYTES, json_string_value(value));
    }
}

static void read_record(struct reader *reader, const struct place *place,
                        const struct record *record, const json_t *value, char *out);
static void read_value(struct reader *reader, const struct place *place, const struct field *field,
                       json_t *value, char *base);

static bool expect_count(struct reader *reader, const struct place *place,
                         const struct field *field, size_t count)
{
    size_t most = field->max > 0 ? (size_t)field->max : field->size;
    ASSERT(most <= field->size);
    const char *plural = count == 1 ? "" : "s";
    if (count > most) {
        add_fault(reader, place, "has %zu element%s; at most %zu are allowed", count, plural, most);
        return false;
    }
    if ((double)count < field->min) {
        add_fault(reader, place, "has %zu element%s; at least %.0f are needed", count, plural,
                  field->min);
        return false;
    }
    return true;
}

static void read_map(struct reader *reader, const struct place *place, const struct field *field,
                     const json_t *value, char *base)
{
    if (!expect(reader, place, value, json_is_object(value), "an object") ||
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
        struct place here = {.parent = place, .name = json_object_iter_key(member)};
        take_text(reader, &here, name_field, here.name, strlen(here.name),
                  element + name_field->offset);
        read_text(reader, &here, value_field, json_object_iter_value(member),
                  element + value_field->offset);
        element += field->element_size;
    }
}

/* A field that this version does not support has one allowed value in its table. */
static void read_constant(struct reader *reader, const struct place *place,
                          const struct field *field, const json_t *value)
{
    json_auto_t *constant = json_loads(field->constant, JSON_DECODE_ANY, NULL);
    if (!constant || !json_equal(constant, value)) {
        add_fault(reader, place, "not supported by this version; leave it out or use %s",
                  field->constant);
    }
}

static void read_list(struct reader *reader, const struct place *place, const struct field *field,
                      const json_t *value, char *base)
{
    if (!expect(reader, place, value, json_is_array(value), "an array") ||
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
        struct place here = {.parent = place, .index = i};
        read_value(reader, &here, &element, json_array_get(value, i),
                   elements + i * field->element_size);
    }
}

static void read_json(json_t *value, json_t **out)
{
    json_t *old = *out;
    *out = json_incref(value);
    json_decref(old);
}

static void read_value(struct reader *reader, const struct place *place, const struct field *field,
                       json_t *value, char *base)
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
        if (expect(reader, place, value, json_is_boolean(value), "a boolean")) {
            *(bool *)at = json_is_true(value);
        }
        break;
    case FIELD_INT: read_int(reader, place, field, value, at); break;
    case FIELD_DOUBLE: read_double(reader, place, field, value, at); break;
    case FIELD_TEXT: read_text(reader, place, field, value, at); break;
    case FIELD_ENUM: read_enum(reader, place, field, value, at); break;
    case FIELD_TIME: read_time(reader, place, value, at); break;
    case FIELD_RECORD: read_record(reader, place, field->record, value, at); break;
    case FIELD_LIST: read_list(reader, place, field, value, base); break;
    case FIELD_MAP: read_map(reader, place, field, value, base); break;
    case FIELD_JSON: read_json(value, at); break;
    case FIELD_CONSTANT: read_constant(reader, place, field, value); break;
    }
}

#define MEMBERS_SHOWN 8

/* "an object with the members type, value, ...": what can be given there. */
static void describe_object(const struct record *record, char out[RECORD_MESSAGE_MAX])
{
    size_t used = (size_t)snprintf(out, RECORD_MESSAGE_MAX, "an object");
    size_t shown = 0;
    for (size_t i = 0; i < record->field_count && used + 1 < RECORD_MESSAGE_MAX; i++) {
        const struct field *field = &record->fields[i];
        if ((field->flags & FIELD_OUTPUT) || field->type == FIELD_CONSTANT ||
            shown > MEMBERS_SHOWN) {
            continue;
        }
        used += (size_t)snprintf(out + used, RECORD_MESSAGE_MAX - used, "%s%s",
                                 shown ? ", " : " with the members ",
                                 shown == MEMBERS_SHOWN ? "..." : field->name);
        shown++;
    }
}

/* The member of the record that is an object with a member of this name, "init" for "seed"; NULL:
 * none. */
static const char *owner_of(const struct record *record, const char *name)
{
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *group = &record->fields[i];
        const struct record *inner =
            group->type == FIELD_RECORD && !(group->flags & FIELD_OUTPUT) ? group->record : NULL;
        for (size_t k = 0; inner && k < inner->field_count; k++) {
            if (!(inner->fields[k].flags & FIELD_OUTPUT) &&
                strcmp(inner->fields[k].name, name) == 0) {
                return group->name;
            }
        }
    }
    return NULL;
}

/* Faults for the members that the table does not know. They come first: a misspelled name explains
 * why another is missing. */
static void refuse_unknown(struct reader *reader, const struct place *place,
                           const struct record *record, const json_t *value)
{
    const char *names[FIELDS_MAX];
    size_t known = 0;
    size_t candidates = 0;
    ASSERT(record->field_count <= FIELDS_MAX);
    for (size_t i = 0; i < record->field_count; i++) {
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
    for (void *member = json_object_iter(object); member && !is_full(reader);
         member = json_object_iter_next(object, member)) {
        struct place here = {.parent = place, .name = json_object_iter_key(member)};
        bool found = false;
        for (size_t i = 0; i < record->field_count && !found; i++) {
            found = strcmp(record->fields[i].name, here.name) == 0;
        }
        const char *owner = found ? NULL : owner_of(record, here.name);
        const char *nearest = found ? NULL : parse_nearest(here.name, names, candidates);
        if (owner) {
            add_fault(reader, &here, "unknown field; did you mean '%s.%s'?", owner, here.name);
        } else if (nearest) {
            add_fault(reader, &here, "unknown field; did you mean '%s'?", nearest);
        } else if (!found) {
            add_fault(reader, &here, "unknown field");
        }
    }
}

static void read_record(struct reader *reader, const struct place *place,
                        const struct record *record, const json_t *value, char *out)
{
    char wanted[RECORD_MESSAGE_MAX] = "an object";
    if (place && !json_is_object(value)) {
        describe_object(record, wanted);
    }
    if (!expect(reader, place, value, json_is_object(value), wanted)) {
        return;
    }
    refuse_unknown(reader, place, record, value);
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        struct place here = {.parent = place, .name = field->name};
        json_t *member = json_object_get(value, field->name);
        if (!member && (field->flags & FIELD_REQUIRED)) {
            add_fault(reader, &here, "is required");
        } else if (member && (field->flags & FIELD_OUTPUT)) {
            add_fault(reader, &here, "is read-only");
        } else if (member) {
            read_value(reader, &here, field, member, out);
        }
    }
}

int record_read(const struct record *record, const json_t *value, const char *base_pointer,
                void *out, struct record_faults *faults, struct err *err)
{
    struct reader reader = {.base_pointer = base_pointer, .faults = faults};
    read_record(&reader, NULL, record, value, out);
    if (!reader.failed) {
        return 0;
    }
    const char *where = reader.first.pointer[0] ? reader.first.pointer : record->name;
    return err_set(err, ERR_INVALID, "%s: %s", where, reader.first.message);
}
