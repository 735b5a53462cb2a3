#include "schema/class_ranges.h"

#include <stddef.h>

#define DIGITS_MAX 6

/* Read a class number and move on. */
static bool read_class(const char **text, size_t *out)
{
    size_t digits = 0;
    *out = 0;
    while (**text >= '0' && **text <= '9' && digits < DIGITS_MAX) {
        *out = *out * 10 + (size_t)(*(*text)++ - '0');
        digits++;
    }
    return digits > 0 && *out < COUNTED_CLASSES_MAX;
}

bool class_ranges_read(const char *text, struct class_ranges *out)
{
    *out = (struct class_ranges){0};
    for (bool more = true; more; text += more) {
        size_t first = 0, last = 0;
        if (!read_class(&text, &first)) {
            return false;
        }
        last = first;
        if (*text == '-' && (text++, !read_class(&text, &last))) {
            return false;
        }
        if (last < first) {
            return false;
        }
        for (size_t c = first; c <= last; c++) {
            out->class[c] = true;
        }
        more = *text == '_';
    }
    return *text == '\0';
}
