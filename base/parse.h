/* parse.h: strict readers for text from outside (options, URLs, headers). Any room, any thread. The
 * whole text must match; errors quote it and name the expected form. */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

NODISCARD int parse_i64(const char *text, int64_t min, int64_t max, int64_t *out, struct err *err);
NODISCARD int parse_double(const char *text, double min, double max, double *out, struct err *err);
/* Read a size in bytes with binary multiples: "512", "64K", "8M", "2G", "1T". */
NODISCARD int parse_size(const char *text, uint64_t *out_bytes, struct err *err);
NODISCARD int parse_bool(const char *text, bool *out, struct err *err);
/* Read lower-case hexadecimal of exactly size * 2 digits. */
NODISCARD int parse_hex(const char *text, uint8_t *out, size_t size, struct err *err);
void parse_to_hex(const uint8_t *data, size_t size, char *out /* size * 2 + 1 */);
/* Return the candidate for "did you mean", or NULL: the one with the smallest edit distance to
 * text, if that is at most a third of its length; a swap of adjacent letters counts as one edit.
 * Otherwise it is the first candidate that has text as a prefix, that is a prefix of text (of at
 * least 3 letters), or whose words have text as initials ("lr"). */
const char *parse_nearest(const char *text, const char *const *candidates, size_t count);

#endif
