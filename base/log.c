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
#include "base/utf8.h"

#define LINE_MAX_BYTES 4096

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static _Atomic int current_level = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
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

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&current_level, memory_order_relaxed)) {
        return;
    }
    char time[CLOCK_RFC3339_SIZE];
    clock_format_rfc3339(clock_wall_ms(), time);

    /* One byte is kept for the line feed. */
    char line[LINE_MAX_BYTES];
    size_t capacity = sizeof(line) - 1;
    int head =
        snprintf(line, capacity, "time=%s level=%s event=%s", time, level_names[level], event);
    size_t size = head < 0 ? 0 : (size_t)head;
    if (size + 1 < capacity && format[0] != '\0') {
        line[size++] = ' ';
        va_list arguments;
        va_start(arguments, format);
        int length = vsnprintf(line + size, capacity - size, format, arguments);
        va_end(arguments);
        size += length < 0 ? 0 : (size_t)length;
    }
    if (size >= capacity) {
        utf8_mark_cut(line, capacity);
    }
    utf8_repair_line(line);
    size = strlen(line);
    line[size++] = '\n';
    /* A log that cannot be written has nowhere to say so. */
    ssize_t written;
    do {
        written = write(STDERR_FILENO, line, size);
    } while (written < 0 && errno == EINTR);
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
