#include "base/json_text.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"

void json_text_to_file(void *to, const char *bytes, size_t size)
{
    (void)fwrite(bytes, 1, size, to);
}

static void put(struct json_text *text, const char *bytes)
{
    text->put(text->to, bytes, strlen(bytes));
}

static void put_quoted(struct json_text *text, const char *value)
{
    put(text, "\"");
    while (*value) {
        size_t plain = 0;
        while ((unsigned char)value[plain] >= 0x20 && value[plain] != '"' && value[plain] != '\\') {
            plain++;
        }
        text->put(text->to, value, plain);
        value += plain;
        if (*value) {
            char escape[8];
            const bool control = (unsigned char)*value < 0x20;
            (void)snprintf(escape, sizeof(escape), control ? "\\u%04x" : "\\%c", *value);
            put(text, escape);
            value++;
        }
    }
    put(text, "\"");
}

/* What precedes a value. */
static void begin_value(struct json_text *text, const char *key)
{
    if (text->comma) {
        put(text, ",");
    }
    text->comma = text->depth > 0;
    if (key) {
        put_quoted(text, key);
        put(text, ":");
    }
}

static void open(struct json_text *text, const char *key, const char *bracket, char end)
{
    ASSERT(text->depth < JSON_TEXT_DEPTH_MAX);
    begin_value(text, key);
    put(text, bracket);
    text->end[text->depth++] = end;
    text->comma = false;
}

void json_text_object(struct json_text *text, const char *key)
{
    open(text, key, "{", '}');
}

void json_text_list(struct json_text *text, const char *key)
{
    open(text, key, "[", ']');
}

void json_text_end(struct json_text *text)
{
    ASSERT(text->depth > 0);
    text->put(text->to, &text->end[--text->depth], 1);
    text->comma = text->depth > 0;
}

void json_text_string(struct json_text *text, const char *key, const char *value)
{
    begin_value(text, key);
    put_quoted(text, value);
}

void json_text_integer(struct json_text *text, const char *key, int64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof(digits), "%" PRId64, value);
    json_text_literal(text, key, digits);
}

void json_text_number(struct json_text *text, const char *key, double value)
{
    char digits[JSON_NUMBER_SIZE];
    json_number(value, digits);
    json_text_literal(text, key, digits);
}

void json_text_literal(struct json_text *text, const char *key, const char *value)
{
    begin_value(text, key);
    put(text, value);
}
