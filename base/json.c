#include "base/json.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* jansson's parser and everything that walks its values recurse once a level: the depth is bounded
 * before it starts. */
static bool too_deep(const char *text, size_t size)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > JSON_DEPTH_MAX) {
                return true;
            }
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

int json_parse(const char *text, size_t size, json_t **out, struct err *err)
{
    if (size == 0) {
        return err_set(err, ERR_FORMAT, "empty, expected JSON");
    }
    if (too_deep(text, size)) {
        return err_set(err, ERR_LIMIT, "JSON nested more than %d levels deep", JSON_DEPTH_MAX);
    }
    json_error_t error;
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!value && json_error_code(&error) == json_error_out_of_memory) {
        return err_set(err, ERR_MEMORY, "no memory for JSON of %zu bytes", size);
    }
    if (!value) {
        return err_set(err, ERR_FORMAT, "JSON line %d column %d: %s", error.line, error.column,
                       error.text);
    }
    *out = value;
    return 0;
}

/* ---- numbers ---- */

void json_number(double value, char out[JSON_NUMBER_SIZE])
{
    if (!isfinite(value)) {
        memcpy(out, "null", sizeof("null"));
        return;
    }
    /* A decimal of up to DBL_DIG digits survives conversion to a normal double and back. %g omits
     * trailing zeros: with DBL_DIG digits it prints the shortest decimal that reads back the
     * same. */
    int digits = fabs(value) < DBL_MIN ? 1 : DBL_DIG;
    do {
        (void)snprintf(out, JSON_NUMBER_SIZE, "%.*g", digits, value);
    } while (digits++ < DBL_DECIMAL_DIG && strtod(out, NULL) != value);
    /* "1e+05" is also "1e5". */
    char *exponent = strchr(out, 'e');
    if (exponent) {
        char *sign = exponent + 1;
        char *first = sign + strspn(sign, "+-0");
        sign += *sign == '-';
        memmove(sign, first, strlen(first) + 1);
    }
}

static size_t string_size(const char *text, size_t size)
{
    size_t i = 1;
    while (i < size && text[i] != '"') {
        i += text[i] == '\\' ? 2 : 1;
    }
    return i + 1;
}

/* Write the shortest form of a number over its `length` bytes. Returns how many are left. */
static size_t shorten_number(char *text, size_t length)
{
    char number[JSON_NUMBER_SIZE];
    if (strcspn(text, ".e") >= length) {
        return length; /* an integer */
    }
    json_number(strtod(text, NULL), number);
    size_t shorter = strlen(number);
    if (shorter >= length) {
        return length;
    }
    memcpy(text, number, shorter);
    if (!strpbrk(number, ".e")) {
        memcpy(text + shorter, ".0", 2); /* it stays a real */
        shorter += 2;
    }
    return shorter;
}

/* jansson has one precision for all numbers: shorten each in the text that it wrote. Returns the
 * new size. */
static size_t shorten_reals(char *text, size_t size)
{
    size_t kept = 0;
    for (size_t i = 0; i < size;) {
        char *piece = text + i;
        size_t length =
            *piece == '"' ? string_size(piece, size - i) : strspn(piece, "0123456789+-.e");
        size_t left =
            length > 0 && *piece != '"' && *piece != 'e' ? shorten_number(piece, length) : length;
        i += length > 0 ? length : 1;
        left = length > 0 ? left : 1;
        memmove(text + kept, piece, left);
        kept += left;
    }
    return kept;
}

/* ---- writing ---- */

struct sink {
    struct buf *buf;
    struct err *err;
    int rc;
};

static int write_piece(const char *piece, size_t size, void *context)
{
    struct sink *sink = context;
    sink->rc = buf_append(sink->buf, piece, size, sink->err);
    return sink->rc ? -1 : 0;
}

static int write_with(const json_t *value, size_t flags, struct buf *out, struct err *err)
{
    struct sink sink = {.buf = out, .err = err};
    size_t size_before = out->size;
    int failed = json_dump_callback(value, write_piece, &sink,
                                    flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    if (!failed) {
        out->size = size_before + shorten_reals(out->data + size_before, out->size - size_before);
    } else {
        out->size = size_before;
    }
    if (out->data) {
        out->data[out->size] = '\0';
    }
    if (!failed) {
        return 0;
    }
    return sink.rc ? sink.rc : err_set(err, ERR_MEMORY, "no memory to write JSON");
}

int json_write(const json_t *value, struct buf *out, struct err *err)
{
    return write_with(value, JSON_COMPACT, out, err);
}

int json_write_lines(const json_t *value, struct buf *out, struct err *err)
{
    return write_with(value, JSON_INDENT(2) | JSON_ENSURE_ASCII, out, err);
}
