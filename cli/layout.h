/* layout.h: an answer as a table, as lines of one object, or as ids. Texts of the server cannot
 * steer a terminal. Pure. */
#ifndef CLI_LAYOUT_H
#define CLI_LAYOUT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "cli/layouts.h"

#define LAYOUT_COLUMNS_MAX 20
#define LAYOUT_CELL_SIZE 512

/* How to write, and what earlier pages of the same list left behind. Starts as zero. */
struct layout_style {
    bool wide;
    int64_t now_ms;        /* wall time, for ages */
    const json_t *devices; /* names by id; may be NULL */
    bool titled;           /* the titles are written */
    size_t row_count;      /* written so far */
    size_t width[LAYOUT_COLUMNS_MAX];
};

/* Return the value at a path of members; NULL: there is none. */
const json_t *layout_value(const json_t *object, const char *path);
/* Append the rows of an answer, the first time after their titles, and its summary. */
NODISCARD int layout_rows(const struct layout *layout, const json_t *answer,
                          struct layout_style *style, struct buf *out, struct err *err);
/* Append an object, one "TITLE  value" a line; absent values are left out. */
NODISCARD int layout_object(const struct layout *layout, const json_t *object,
                            const struct layout_style *style, struct buf *out, struct err *err);
/* Append the id of each row, a line each. */
NODISCARD int layout_ids(const struct layout *layout, const json_t *answer, struct buf *out,
                         struct err *err);
/* Whether a table of the layout shows names of devices. */
bool layout_names_devices(const struct layout *layout);

#endif
