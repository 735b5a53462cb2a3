/* class_names.h: the names of the classes of a data set or a model, ordered by class number. They
 * come from outside as arbitrary bytes (directories) and travel as text. Bytes that are not
 * printable UTF-8, and '%' itself, become %XX, so that two names differ as texts exactly if they
 * differ as bytes. Used by libtrain, the coordinator and `paceline-agent`. Pure; any thread. */
#ifndef LIBTRAIN_FORMATS_CLASS_NAMES_H
#define LIBTRAIN_FORMATS_CLASS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "libtrain/formats/names.h"

#define CLASS_NAMES_TEXT_MAX 65536u /* bytes of a list as compact JSON */
#define CLASS_NAMES_LISTED_MAX 64
#define CLASS_NAMES_DIFFERENCE_MAX (2 * CLASS_NAMES_LISTED_MAX + 32)

/* Append the first `size` bytes of a name, converted to text. ERR_MEMORY. */
NODISCARD int class_names_append(struct name_list *names, const char *bytes, size_t size,
                                 struct err *err);
/* Replace `names` by a JSON list of texts. ERR_INVALID names the first invalid one: not a text,
 * empty, not in the form above, a duplicate, or beyond CLASS_NAMES_TEXT_MAX. ERR_MEMORY. On failure
 * `names` is empty. */
NODISCARD int class_names_read(const json_t *value, struct name_list *names, struct err *err);
/* Return a new JSON list; NULL when out of memory. */
json_t *class_names_json(const struct name_list *names);
/* Append the list as compact JSON to `out`. ERR_LIMIT for more than CLASS_NAMES_TEXT_MAX bytes. */
NODISCARD int class_names_write(const struct name_list *names, struct buf *out, struct err *err);
NODISCARD int class_names_copy(const struct name_list *from, struct name_list *to, struct err *err);

/* Append the names of the numbers number[count] in `from`, and one that none of them has, for all
 * other classes: "other", if need be with '_' after it. Each number is below from->count. */
NODISCARD int class_names_select(const struct name_list *from, const int64_t *number, size_t count,
                                 struct name_list *to, struct err *err);

/* Whether every number with a name in `some` has the same name in `all`. An empty list agrees with
 * any. */
bool class_names_agree(const struct name_list *some, const struct name_list *all);
/* Write the first names: "'bird', 'cat' and 8 more". */
void class_names_list(const struct name_list *names, char out[CLASS_NAMES_LISTED_MAX]);
/* Count the names of `some` that are not in `all`, and list the first in `out`. SIZE_MAX, and
 * nothing in `out`, when out of memory. */
size_t class_names_absent(const struct name_list *some, const struct name_list *all,
                          char out[CLASS_NAMES_LISTED_MAX]);
/* Describe the difference: "missing: 'bird'; unknown: 'wolf', 'yak' and 3 more", or the first
 * number with another meaning. */
void class_names_difference(const struct name_list *some, const struct name_list *all,
                            char out[CLASS_NAMES_DIFFERENCE_MAX]);
/* Map class numbers: out[from->count] is the number in `to` of each name, or -1. ERR_MEMORY. O(n
 * log n). */
NODISCARD int class_names_map(const struct name_list *from, const struct name_list *to,
                              int32_t *out, struct err *err);

#endif
