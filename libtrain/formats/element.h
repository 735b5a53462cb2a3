/* element.h: a number as a file stores it. Private to libtrain/formats (arrays, sounds). Pure; any
 * thread. */
#ifndef LIBTRAIN_FORMATS_ELEMENT_H
#define LIBTRAIN_FORMATS_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum element_kind { ELEMENT_UNSIGNED, ELEMENT_SIGNED, ELEMENT_FLOAT };

struct element {
    enum element_kind kind;
    uint8_t size; /* bytes: 1 to 8; of ELEMENT_FLOAT 2, 4 or 8 */
    bool big_endian;
};

/* The value of an integer; INT64_MAX if it does not fit. */
int64_t element_integer(struct element element, const uint8_t *bytes);
/* The value of a number of any kind; exact, except integers of more than 53 bits. */
double element_number(struct element element, const uint8_t *bytes);
/* Convert bytes[count] of ELEMENT_FLOAT to out[count], rounded to the nearest float. Returns the
 * number of finite values before the first that is not: `count` if all are. No overlap. */
size_t element_floats(struct element element, const uint8_t *bytes, size_t count, float *out);

#endif
