#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log_json.h"
#include "base/utf8.h"

#define PAIRS_MAX_BYTES 4000

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static _Atomic int set_level = LOG_LEVEL_INFO;
static _Atomic bool set_debug;
static _Atomic int set_format = LOG_FORMAT_TEXT;

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&set_level, (int)level, memory_order_relaxed);
}

void log_set_debug(bool on)
{
    atomic_store_explicit(&set_debug, on, memory_order_relaxed);
}

bool log_shows(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&set_level, memory_order_relaxed) ||
           atomic_load_explicit(&set_debug, memory_order_relaxed);
}

void log_set_format(enum log_format format)
{
    atomic_store_explicit(&set_format, (int)format, memory_order_relaxed);
}

int log_level_parse(const char *text, enum log_level *out, struct err *err)
{
    for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++) {
        if (strcmp(text, level_names[level]) == 0) {
            *out = (enum log_level)level;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "'%s' is not a log level; expected error, warn, info or debug",
                   text);
}

int log_format_parse(const char *text, enum log_format *out, struct err *err)
{
    const bool json = strcmp(text, "json") == 0;
    if (!json && strcmp(text, "text") != 0) {
        return err_set(err, ERR_INVALID, "'%s' is not a log format; expected text or json", text);
    }
    *out = json ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
    return 0;
}

/* A log that cannot be written has nowhere to say so. */
static void write_line(char *line, size_t size)
{
    line[size++] = '\n';
    ssize_t written;
    do {
        written = write(STDERR_FILENO, line, size);
    } while (written < 0 && errno == EINTR);
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    if (!log_shows(level)) {
        return;
    }
    char time[CLOCK_RFC3339_SIZE];
    clock_format_rfc3339(clock_wall_ms(), time);

    char pairs[PAIRS_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(pairs, sizeof(pairs), format, arguments);
    va_end(arguments);
    if (length < 0) {
        pairs[0] = '\0';
    } else if ((size_t)length >= sizeof(pairs)) {
        utf8_mark_cut(pairs, sizeof(pairs));
    }
    utf8_repair_line(pairs);

    char line[LOG_JSON_SIZE(PAIRS_MAX_BYTES)];
    if (atomic_load_explicit(&set_format, memory_order_relaxed) == LOG_FORMAT_JSON) {
        write_line(line, log_json_write(time, level_names[level], event, format, pairs, line));
    } else {
        const int size = snprintf(line, sizeof(line) - 1, "time=%s level=%s event=%.100s%s%s", time,
                                  level_names[level], event, format[0] != '\0' ? " " : "", pairs);
        write_line(line, size < 0 ? 0 : (size_t)size);
    }
}

static bool needs_quotes(const char *text)
{
    if (text[0] == '\0') {
        return true;
    }
    for (const char *at = text; *at; at++) {
        uint8_t byte = (uint8_t)*at;
        if (byte <= ' ' || byte == '"' || byte == '=' || byte == '\\' || byte == 0x7F) {
            return true;
        }
    }
    return false;
}

struct log_quoted log_quote(const char *text)
{
    static const char digits[] = "0123456789abcdef";
    struct log_quoted quoted;
    char *out = quoted.text;
    bool quotes = needs_quotes(text);
    size_t size = 0;
    /* Room for the longest escape, the mark of a cut, the closing quote and the NUL. */
    const size_t end = sizeof(quoted.text) - (sizeof("\\u001f") - 1) - (sizeof("...") - 1) - 2;

    if (quotes) {
        out[size++] = '"';
    }
    size_t left = strlen(text);
    while (left > 0 && size < end) {
        uint8_t byte = (uint8_t)*text;
        size_t length = utf8_sequence(text, left);
        if (byte == '"' || byte == '\\') {
            out[size++] = '\\';
            out[size++] = (char)byte;
        } else if (byte == '\n') {
            out[size++] = '\\';
            out[size++] = 'n';
        } else if (byte < ' ' || byte == 0x7F) {
            memcpy(out + size, "\\u00", 4);
            out[size + 4] = digits[byte >> 4];
            out[size + 5] = digits[byte & 15];
            size += 6;
        } else if (length == 0) {
            out[size++] = '?';
        } else {
            memcpy(out + size, text, length);
            size += length;
        }
        size_t used = length ? length : 1;
        text += used;
        left -= used;
    }
    if (left > 0) {
        memcpy(out + size, "...", 3);
        size += 3;
    }
    if (quotes) {
        out[size++] = '"';
    }
    out[size] = '\0';
    return quoted;
}
