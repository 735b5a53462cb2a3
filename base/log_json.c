#include "base/log_json.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char key_characters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

/* The length of the key that `text` begins with, followed by '='; 0: it begins with none. */
static size_t key_length(const char *text)
{
    const size_t length = strspn(text, key_characters);
    return text[length] == '=' ? length : 0;
}

/* The end of a pair without quotes: a space before the next key, or the end. A value that holds
 * spaces should have been quoted; it stays whole nevertheless. */
static const char *plain_end(const char *value)
{
    const char *at = value;
    while (*at && !(*at == ' ' && key_length(at + 1) > 0)) {
        at++;
    }
    return at;
}

/* The place after "key=" in the format; NULL: the format does not name the key. */
static const char *find_conversion(const char *format, const char *key, size_t length)
{
    const char *at = format;
    while (*at) {
        if (strncmp(at, key, length) == 0 && at[length] == '=') {
            return at + length + 1;
        }
        at = strchr(at, ' ');
        if (!at) {
            return NULL;
        }
        at++;
    }
    return NULL;
}

/* Whether the whole value is one conversion of a decimal number, as "%zu" and "%.3f". */
static bool is_numeric(const char *conversion)
{
    if (!conversion || *conversion != '%') {
        return false;
    }
    const char *at = conversion + 1;
    at += strspn(at, "-+#0123456789.*hljzt");
    return *at && strchr("diufFeEgG", *at) && (at[1] == ' ' || at[1] == '\0');
}

/* "nan", "inf" and "007" are no JSON numbers, and a truncated number ("12...") is another one. */
static bool is_number(const char *value, size_t length)
{
    const char *digits = *value == '-' ? value + 1 : value;
    char *end = NULL;
    if (strspn(value, "+-.0123456789eE") != length || !isdigit((unsigned char)*digits) ||
        (*digits == '0' && isdigit((unsigned char)digits[1]))) {
        return false;
    }
    (void)strtod(value, &end);
    return end == value + length;
}

/* A value of log_quote has JSON's escapes already. Returns the text after its closing quote. */
static const char *copy_quoted(const char *value, char **out)
{
    const char *at = value + 1;
    *(*out)++ = '"';
    while (*at && *at != '"') {
        if (*at == '\\' && (at[1] == '"' || at[1] == '\\' || at[1] == 'n')) {
            *(*out)++ = *at++;
        } else if (*at == '\\' && !(at[1] == 'u' && strspn(at + 2, "0123456789abcdef") >= 4)) {
            *(*out)++ = '\\';
        }
        *(*out)++ = *at++;
    }
    *(*out)++ = '"';
    return *at ? at + 1 : at;
}

static void copy_plain(const char *value, size_t length, bool number, char **out)
{
    if (!number) {
        *(*out)++ = '"';
    }
    for (size_t i = 0; i < length; i++) {
        if (value[i] == '"' || value[i] == '\\') {
            *(*out)++ = '\\';
        }
        *(*out)++ = value[i];
    }
    if (!number) {
        *(*out)++ = '"';
    }
}

/* Text without a key, which no event should have, gets the key "text" as far as the next key: a
 * member for each of its words would make the line longer than LOG_JSON_SIZE. */
static const char *write_pair(const char *format, const char *at, char **out)
{
    const size_t length = key_length(at);
    const char *key = length > 0 ? at : "text";
    const size_t key_size = length > 0 ? length : strlen(key);
    const char *value = length > 0 ? at + length + 1 : at;
    *(*out)++ = ',';
    copy_plain(key, key_size, false, out);
    *(*out)++ = ':';
    if (length > 0 && *value == '"') {
        return copy_quoted(value, out);
    }
    const char *end = plain_end(value);
    const size_t size = (size_t)(end - value);
    const bool number =
        length > 0 && is_numeric(find_conversion(format, key, length)) && is_number(value, size);
    copy_plain(value, size, number, out);
    return end;
}

size_t log_json_write(const char *time, const char *level, const char *event, const char *format,
                      const char *pairs, char *out)
{
    const int head =
        snprintf(out, LOG_JSON_SIZE(0), "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%.100s\"",
                 time, level, event);
    char *end = out + head;
    const char *at = pairs;
    while (*at) {
        at = *at == ' ' ? at + 1 : write_pair(format, at, &end);
    }
    *end++ = '}';
    *end = '\0';
    return (size_t)(end - out);
}
