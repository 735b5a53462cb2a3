/* json_text.h: writes JSON text member by member, if a document in memory (base/json.h) would be
 * larger than the text, or the bytes go to a buffer of fixed size. The caller provides a function
 * that takes the bytes. This module writes commas and escapes. Pure except json_text_to_file; one
 * thread. */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_TEXT_DEPTH_MAX 8

struct json_text {
    void (*put)(void *to, const char *bytes, size_t size);
    void *to;   /* handed to `put` */
    bool comma; /* the next value follows another one */
    size_t depth;
    char end[JSON_TEXT_DEPTH_MAX]; /* the closing brackets of the open objects and lists */
};

/* A function `put` that writes to a stdio stream (`to`). The stream keeps the error (ferror). */
void json_text_to_file(void *to, const char *bytes, size_t size);

/* Begin an object or a list; end the innermost. In an object every value has its key; in a list and
 * outside it is NULL. */
void json_text_object(struct json_text *text, const char *key);
void json_text_list(struct json_text *text, const char *key);
void json_text_end(struct json_text *text);
/* Write a value. A string is UTF-8. A number has its shortest form, "null" if it is not finite. A
 * literal must be valid JSON. */
void json_text_string(struct json_text *text, const char *key, const char *value);
void json_text_integer(struct json_text *text, const char *key, int64_t value);
void json_text_number(struct json_text *text, const char *key, double value);
void json_text_literal(struct json_text *text, const char *key, const char *value);

#endif
