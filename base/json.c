#include "base/json.h"

#include <stdbool.h>

/* jansson's parser and everything that walks its values recurse once a level: the depth is bounded before it starts. */
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
        return err_set(err, ERR_FORMAT, "JSON line %d column %d: %s", error.line, error.column, error.text);
    }
    *out = value;
    return 0;
}

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

int json_write(const json_t *value, struct buf *out, struct err *err)
{
    struct sink sink = {.buf = out, .err = err};
    size_t size_before = out->size;
    int failed =
        json_dump_callback(value, write_piece, &sink, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    if (!failed) {
        return 0;
    }
    out->size = size_before;
    if (out->data) {
        out->data[size_before] = '\0';
    }
    return sink.rc ? sink.rc : err_set(err, ERR_MEMORY, "no memory to write JSON");
}
