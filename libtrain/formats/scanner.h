/* scanner.h: the tokens of headers of tensor files: JSON texts, integers from 0, punctuation.
 * Private to libtrain/formats (safetensors.c, npy.c). Bounded by the input, no recursion, no
 * allocation; any thread. */
#ifndef LIBTRAIN_FORMATS_SCANNER_H
#define LIBTRAIN_FORMATS_SCANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct scanner {
    const char *text;
    size_t size;
    size_t at;
};

/* Skip white space, then read `c` if it is next. */
bool scanner_take(struct scanner *scanner, char c);
/* Take `c` or fail: "header byte 12: expected ':'". */
NODISCARD int scanner_expect(struct scanner *scanner, char c, struct err *err);
/* An integer from 0 to 2^63 - 1, without sign, leading zero, fraction or exponent. */
NODISCARD int scanner_integer(struct scanner *scanner, uint64_t *out, struct err *err);
/* A text, its escapes decoded, NUL-terminated. ERR_LIMIT when it needs more than `capacity` bytes;
 * ERR_FORMAT for invalid UTF-8, control characters and \u0000. */
NODISCARD int scanner_text(struct scanner *scanner, char *out, size_t capacity, struct err *err);
/* Skip a text of any length. *size: of its decoded bytes. ERR_FORMAT as scanner_text. */
NODISCARD int scanner_skip_text(struct scanner *scanner, size_t *size, struct err *err);
/* True if only white space is left. */
bool scanner_at_end(struct scanner *scanner);

#endif
