/* log.h: one event, one line on stderr, name first: `time=... level=info event=device_lost
 * device=dev_1 silent_ms=5012` (logfmt), or the same members as a JSON object. For edges only
 * (loops, HTTP, runtime, programs); pure rooms never log. Any thread; a line is written in one
 * call. error: a person must act; warn: the program survived a fault, and how; info: a state
 * changed; debug: for developers. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/err.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* The levels and the format are the only mutable globals of the project. */

/* Drop lines below this level. Default: info. */
void log_set_level(enum log_level level);
/* While on, write all lines, regardless of the level. */
void log_set_debug(bool on);
/* Return whether lines of this level are written now. */
bool log_shows(enum log_level level);
/* Parse "error", "warn", "info" or "debug". */
NODISCARD int log_level_parse(const char *text, enum log_level *out, struct err *err);

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };
/* The form of lines. Default: text. */
void log_set_format(enum log_format format);
/* Parse "text" or "json". */
NODISCARD int log_format_parse(const char *text, enum log_format *out, struct err *err);

/* Write a line. format yields "key=value key=value"; pass values that may hold spaces or quotes
 * through log_quote. */
void log_event(enum log_level level, const char *event, const char *format, ...) PRINTF_LIKE(3, 4);

#define log_error(...) log_event(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_event(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_event(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_event(LOG_LEVEL_DEBUG, __VA_ARGS__)

#define LOG_QUOTE_MAX 768
struct log_quoted {
    char text[LOG_QUOTE_MAX];
};
/* Quote and escape a text if logfmt needs it, and truncate it if it is too long: `error=%s`,
 * log_quote(err.text).text. */
struct log_quoted log_quote(const char *text);

#endif
