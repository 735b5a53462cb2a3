#include "base/record_fault.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"

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
static void put_place(struct pointer_text *out, const struct record_place *place)
{
    if (!place) {
        return;
    }
    put_place(out, place->parent);
    char number[24];
    (void)snprintf(number, sizeof(number), "%zu", place->index);
    put_escaped(out, place->name ? place->name : number);
}

bool record_fault_full(const struct record_reader *reader)
{
    return reader->failed && (!reader->faults || reader->faults->more);
}

void record_fault_add(struct record_reader *reader, const struct record_place *place,
                      const char *format, ...)
{
    if (record_fault_full(reader)) {
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

bool record_fault_expect(struct record_reader *reader, const struct record_place *place,
                         const json_t *value, bool good, const char *wanted)
{
    if (!good) {
        record_fault_add(reader, place, "expected %s, got %s", wanted, type_name(value));
    }
    return good;
}
