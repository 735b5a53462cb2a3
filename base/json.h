/* json.h: the only access to jansson. For schema's wire form, libtrain/model, the HTTP edges and
 * the cli; never for cores or tensors. Ownership as in jansson: the caller owns a returned json_t *
 * unless the comment says borrowed. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define JSON_DEPTH_MAX 32
#define JSON_NUMBER_SIZE 32

/* Parse one JSON text: UTF-8, no duplicate keys, nothing after it, at most JSON_DEPTH_MAX levels.
 * ERR_FORMAT names line and column. */
NODISCARD int json_parse(const char *text, size_t size, json_t **out, struct err *err);
/* Append compact JSON, keys in the order in which they were set, reals in their shortest form. */
NODISCARD int json_write(const json_t *value, struct buf *out, struct err *err);
/* The same for people: ASCII, one member per line, indented. */
NODISCARD int json_write_lines(const json_t *value, struct buf *out, struct err *err);
/* Write the fewest digits that read back as the same number; "null" for infinities and NaN, which
 * JSON lacks. */
void json_number(double value, char out[JSON_NUMBER_SIZE]);

#endif
