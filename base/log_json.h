/* log_json.h: converts the logfmt text of a log line into one JSON object. Pure; for log.c. */
#ifndef BASE_LOG_JSON_H
#define BASE_LOG_JSON_H

#include <stddef.h>

/* The most that log_json_write writes for pairs of `size` bytes: every byte may need an escape, and
 * the members of careless text grow to three times its size (`a=""x b=""x`). */
#define LOG_JSON_SIZE(size) (3 * (size) + 256)

/* Write {"time": ..., "level": ..., "event": ..., KEY: VALUE ...} without a line feed and return
 * its size. time, level and event need no escapes.
 * format: as of log_event. A value that one numeric conversion makes is a JSON number, all others
 * are strings, so that a key has one type in all lines of its event.
 * pairs: the formatted text, in UTF-8 without control characters, perhaps truncated.
 * out: LOG_JSON_SIZE(strlen(pairs)) bytes. */
size_t log_json_write(const char *time, const char *level, const char *event, const char *format,
                      const char *pairs, char *out);

#endif
