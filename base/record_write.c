#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/record_parts.h"
#include "base/utf8.h"

/* How many elements the list or map of the struct at base has. */
static size_t element_count(const struct field *field, const char *base)
{
    const void *stored = base + field->count_offset;
    size_t count = *(const size_t *)stored;
    ASSERT(count <= field->size);
    return count;
}

/* Free what the field of the struct at base owns; the plain members stay. */
static void release_field(const struct field *field, char *base)
{
    void *at = base + field->offset;
    if (field->type == FIELD_RECORD) {
        record_done(field->record, at);
    } else if (field->type == FIELD_JSON) {
        json_decref(*(json_t **)at);
        *(json_t **)at = NULL;
    } else if (field->type == FIELD_LIST) {
        const struct field element = record_element(field);
        size_t count = element_count(field, base);
        for (size_t i = 0; i < count; i++) {
            release_field(&element, (char *)at + i * field->element_size);
        }
    }
}

void record_done(const struct record *record, void *value)
{
    for (size_t i = 0; i < record->field_count; i++) {
        release_field(&record->fields[i], value);
    }
}

void record_clear_field(const struct field *field, char *base)
{
    release_field(field, base);
    void *at = base + field->offset;
    switch (field->type) {
    case FIELD_BOOL: *(bool *)at = false; break;
    case FIELD_INT: record_set_int(field, 0, at); break;
    case FIELD_TIME: *(int64_t *)at = 0; break;
    case FIELD_DOUBLE: *(double *)at = 0; break;
    case FIELD_TEXT: *(char *)at = '\0'; break;
    case FIELD_ENUM: *(int *)at = 0; break;
    case FIELD_LIST:
    case FIELD_MAP: *record_count(field, base) = 0; break;
    case FIELD_RECORD:
        if (field->record->first_alone) { /* null is that all of its members are empty */
            record_clear(field->record, at);
        }
        break;
    case FIELD_JSON:
    case FIELD_CONSTANT: break;
    }
    if (record_has_presence(field)) {
        *record_presence(field, base) = false;
    }
    if (field->instead) {
        record_clear_field(field->instead, base);
    }
}

/* Recursion is bounded by the nesting of the tables. */
void record_clear(const struct record *record, void *value)
{
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        char *at = (char *)value + field->offset;
        bool is_list = field->type == FIELD_LIST || field->type == FIELD_MAP;
        size_t used = is_list ? element_count(field, value) * field->element_size : 0;
        record_clear_field(field, value);
        if (field->type == FIELD_RECORD) {
            record_clear(field->record, at);
        }
        memset(at, 0, used);
    }
}

static bool is_zero(const struct field *field, const char *base);

bool record_all_zero(const struct record *record, const char *base)
{
    size_t i = 0;
    while (i < record->field_count && is_zero(&record->fields[i], base)) {
        i++;
    }
    return i == record->field_count;
}

static bool is_zero(const struct field *field, const char *base)
{
    if (record_has_presence(field)) {
        const void *presence = base + field->presence_offset;
        return !*(const bool *)presence;
    }
    const void *at = base + field->offset;
    switch (field->type) {
    case FIELD_BOOL: return !*(const bool *)at;
    case FIELD_INT: return record_int(field, at) == 0;
    case FIELD_TIME: return *(const int64_t *)at == 0;
    case FIELD_DOUBLE: return fpclassify(*(const double *)at) == FP_ZERO;
    case FIELD_TEXT: return *(const char *)at == '\0';
    case FIELD_ENUM: return *(const int *)at == 0;
    case FIELD_RECORD: return record_all_zero(field->record, at);
    case FIELD_CONSTANT: return false;
    case FIELD_LIST:
    case FIELD_MAP:
        return element_count(field, base) == 0 &&
               (!field->instead || is_zero(field->instead, base));
    case FIELD_JSON: return *(json_t *const *)at == NULL;
    }
    return false;
}

/* A text from outside (a path, a truncated message) may not be UTF-8, and JSON must be. */
static json_t *write_text(const struct field *field, const char *text)
{
    size_t size = strnlen(text, field->size);
    ASSERT(size < field->size);
    size_t i = 0;
    size_t length = 1;
    while (i < size && (length = utf8_sequence(text + i, size - i)) > 0) {
        i += length;
    }
    if (length > 0) {
        return json_stringn_nocheck(text, size);
    }
    char *copy = strdup(text);
    if (!copy) {
        return NULL;
    }
    utf8_repair(copy);
    json_t *value = json_string_nocheck(copy);
    free(copy);
    return value;
}

static json_t *write_enum(const struct field *field, int index)
{
    ASSERT(index >= 0);
    for (int i = 0; i <= index; i++) {
        ASSERT(field->names[i]);
    }
    return json_string(field->names[index]);
}

static json_t *write_time(int64_t wall_ms)
{
    char text[CLOCK_RFC3339_SIZE];
    clock_format_rfc3339(wall_ms, text);
    return json_string(wall_ms == 0 ? "1970-01-01T00:00:00.000Z" : text);
}

static json_t *write_value(const struct field *field, int version, const char *base);

static json_t *write_list(const struct field *field, int version, const char *base)
{
    size_t count = element_count(field, base);
    const struct field element = record_element(field);
    if (field->instead && count == 0) {
        return write_value(field->instead, version, base);
    }
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++) {
        const char *at = base + field->offset + i * field->element_size;
        if (json_array_append_new(list, field->record
                                            ? record_write_version(field->record, version, at)
                                            : write_value(&element, version, at))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *write_map(const struct field *field, const char *base)
{
    size_t count = element_count(field, base);
    const struct field *name_field = &field->record->fields[0];
    const struct field *value_field = &field->record->fields[1];
    json_t *object = json_object();
    for (size_t i = 0; object && i < count; i++) {
        const char *element = base + field->offset + i * field->element_size;
        if (json_object_set_new(object, element + name_field->offset,
                                write_text(value_field, element + value_field->offset))) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* A text for one that has its first member only, if it may be one. */
static json_t *write_record(const struct record *record, int version, const char *base)
{
    size_t i = 1;
    while (record->first_alone && i < record->field_count && is_zero(&record->fields[i], base)) {
        i++;
    }
    return record->first_alone && i == record->field_count && !is_zero(&record->fields[0], base)
               ? write_value(&record->fields[0], version, base)
               : record_write_version(record, version, base);
}

static json_t *write_value(const struct field *field, int version, const char *base)
{
    if ((field->flags & FIELD_NULLABLE) && is_zero(field, base)) {
        return json_null();
    }
    const void *at = base + field->offset;
    switch (field->type) {
    case FIELD_BOOL: return json_boolean(*(const bool *)at);
    case FIELD_INT: return json_integer(record_int(field, at));
    case FIELD_DOUBLE:
        return isfinite(*(const double *)at) ? json_real(*(const double *)at) : json_null();
    case FIELD_TEXT: return write_text(field, at);
    case FIELD_ENUM: return write_enum(field, *(const int *)at);
    case FIELD_TIME: return write_time(*(const int64_t *)at);
    case FIELD_RECORD: return write_record(field->record, version, at);
    case FIELD_LIST: return write_list(field, version, base);
    case FIELD_MAP: return write_map(field, base);
    case FIELD_CONSTANT: return json_loads(field->constant, JSON_DECODE_ANY, NULL);
    case FIELD_JSON: {
        json_t *value = *(json_t *const *)at;
        return value ? json_incref(value) : json_null();
    }
    }
    return NULL;
}

json_t *record_write_version(const struct record *record, int version, const void *value)
{
    json_t *object = json_object();
    for (size_t i = 0; object && i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        const bool *unless = record_unless(record, field, value);
        if ((field->flags & FIELD_INPUT) || (unless && *unless) || !record_has(field, version) ||
            ((field->flags & FIELD_SKIP_EMPTY) && is_zero(field, value))) {
            continue;
        }
        /* The setter takes the new value and rejects NULL, the result of a failed allocation. */
        if (json_object_set_new(object, field->name, write_value(field, version, value))) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

json_t *record_write(const struct record *record, const void *value)
{
    return record_write_version(record, RECORD_NEWEST, value);
}
