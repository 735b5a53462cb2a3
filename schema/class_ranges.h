/* class_ranges.h: classes as ranges of their numbers: the value of the device label `classes`. */
#ifndef SCHEMA_CLASS_RANGES_H
#define SCHEMA_CLASS_RANGES_H

#include <stdbool.h>

#include "schema/limits.h"

#define CLASS_RANGES_LABEL "classes"

/* By class number. */
struct class_ranges {
    bool class[COUNTED_CLASSES_MAX];
};

/* Read "0-3_7": the classes 0 to 3, and 7. Return whether the text has this form, with numbers
 * below COUNTED_CLASSES_MAX. */
bool class_ranges_read(const char *text, struct class_ranges *out);

#endif
