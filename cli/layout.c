#include "cli/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/utf8.h"

#define PATH_NAME_MAX 64
#define SHORT_CHARACTERS 12

typedef char cell_text[LAYOUT_CELL_SIZE];

const json_t *layout_value(const json_t *object, const char *path)
{
    while (object && path[0] != '\0') {
        char name[PATH_NAME_MAX];
        size_t size = strcspn(path, "/");
        ASSERT(size < sizeof(name));
        memcpy(name, path, size);
        name[size] = '\0';
        object = json_object_get(object, name);
        path += size + (path[size] == '/');
    }
    return object;
}

/* ---- cells ---- */

static void write_scalar(const json_t *value, cell_text out)
{
    if (json_is_string(value)) {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%s", json_string_value(value));
    } else if (json_is_integer(value)) {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%.6g", json_real_value(value));
    } else if (json_is_boolean(value)) {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%s", json_is_true(value) ? "yes" : "no");
    }
}

static void write_state(const json_t *row, const json_t *value, cell_text out)
{
    static const char *const flags[] = {"pending", "cordoned", "draining",
                                        "drained", "leaving",  "stalled"};
    write_scalar(value, out);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (json_is_true(json_object_get(row, flags[i]))) {
            size_t used = strlen(out);
            (void)snprintf(out + used, LAYOUT_CELL_SIZE - used, ",%s", flags[i]);
        }
    }
}

/* A device: its id, or an object with id and name. */
static const char *device_name(const json_t *device, const json_t *names)
{
    if (json_is_object(device)) {
        return json_string_value(json_object_get(device, "name"));
    }
    const char *id = json_string_value(device);
    const char *name = id ? json_string_value(json_object_get(names, id)) : NULL;
    return name && name[0] != '\0' ? name : id;
}

static void write_devices(const json_t *list, const json_t *names, cell_text out)
{
    size_t index;
    json_t *item;
    json_array_foreach(list, index, item)
    {
        const json_t *stage = json_object_get(item, "device");
        const char *name = device_name(stage ? stage : item, names);
        size_t used = strlen(out);
        (void)snprintf(out + used, LAYOUT_CELL_SIZE - used, "%s%s", used > 0 ? "," : "",
                       name ? name : "?");
    }
}

static void write_seconds(double seconds, cell_text out)
{
    if (seconds >= 2 * 86400) {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%.1f d", seconds / 86400);
    } else if (seconds >= 2 * 3600) {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%.1f h", seconds / 3600);
    } else if (seconds >= 120) {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%.0f min", seconds / 60);
    } else if (seconds >= 1 || seconds == 0) {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%.3g s", seconds);
    } else if (seconds >= 1e-3) {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%.3g ms", seconds * 1e3);
    } else {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%.3g us", seconds * 1e6);
    }
}

static void write_bytes(double bytes, cell_text out)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes >= 1023.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(out, LAYOUT_CELL_SIZE, unit > 0 && bytes < 9.95 ? "%.1f %s" : "%.0f %s", bytes,
                   units[unit]);
}

static void write_age(const char *text, int64_t now_ms, cell_text out)
{
    static const struct {
        int64_t seconds;
        char unit;
    } steps[] = {{2 * 86400, 'd'}, {2 * 3600, 'h'}, {120, 'm'}, {0, 's'}};
    int64_t then_ms = 0;
    if (!text || clock_parse_rfc3339(text, &then_ms, NULL)) {
        return;
    }
    int64_t age = now_ms > then_ms ? (now_ms - then_ms) / 1000 : 0;
    size_t i = 0;
    while (age < steps[i].seconds) {
        i++;
    }
    int64_t unit = steps[i].seconds >= 86400  ? 86400
                   : steps[i].seconds >= 3600 ? 3600
                   : steps[i].seconds >= 60   ? 60
                                              : 1;
    (void)snprintf(out, LAYOUT_CELL_SIZE, "%" PRId64 "%c", age / unit, steps[i].unit);
}

static void write_range(const json_t *range, cell_text out)
{
    const json_int_t first = json_integer_value(json_object_get(range, "first"));
    const json_int_t end = json_integer_value(json_object_get(range, "end"));
    if (end > first) {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%" JSON_INTEGER_FORMAT "-%" JSON_INTEGER_FORMAT,
                       first, end - 1);
    }
}

/* A number, or the number of a group in an object about it. */
static json_int_t number_of(const json_t *item)
{
    const json_t *group = json_object_get(item, "group");
    return json_integer_value(group ? group : item);
}

static void write_numbers(const json_t *list, cell_text out)
{
    for (size_t i = 0, next = 0; i < json_array_size(list); i = next) {
        const json_int_t first = number_of(json_array_get(list, i));
        const size_t used = strlen(out);
        json_int_t last = first;
        for (next = i + 1; number_of(json_array_get(list, next)) == last + 1; next++) {
            last++;
        }
        (void)snprintf(out + used, LAYOUT_CELL_SIZE - used, "%s%" JSON_INTEGER_FORMAT,
                       used > 0 ? "," : "", first);
        if (last > first) {
            const size_t more = strlen(out);
            (void)snprintf(out + more, LAYOUT_CELL_SIZE - more, "-%" JSON_INTEGER_FORMAT, last);
        }
    }
}

static void write_value(const struct column *column, const json_t *row, const json_t *value,
                        const struct layout_style *style, cell_text out)
{
    const char *name;
    switch (column->cell) {
    case CELL_TEXT: write_scalar(value, out); return;
    case CELL_STATE: write_state(row, value, out); return;
    case CELL_DEVICE:
        name = device_name(value, style->devices);
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%s", name ? name : "");
        return;
    case CELL_DEVICES: write_devices(value, style->devices, out); return;
    case CELL_SECONDS: write_seconds(json_number_value(value), out); return;
    case CELL_BYTES: write_bytes(json_number_value(value), out); return;
    case CELL_SHARE:
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%.3g %%", json_number_value(value) * 100);
        return;
    case CELL_RANGE: write_range(value, out); return;
    case CELL_NUMBERS: write_numbers(value, out); return;
    case CELL_AGE: write_age(json_string_value(value), style->now_ms, out); return;
    case CELL_SHORT:
        write_scalar(value, out);
        if (strlen(out) > SHORT_CHARACTERS) {
            out[SHORT_CHARACTERS] = '\0';
        }
        return;
    }
}

/* Write a cell; "-" if the row has no value. Return whether the row has the value. */
static bool write_cell(const struct column *column, const json_t *row, size_t index,
                       const struct layout_style *style, cell_text out)
{
    out[0] = '\0';
    if (strcmp(column->path, ".") == 0) {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "%zu", index);
        return true;
    }
    const json_t *value = layout_value(row, column->path);
    if (value && !json_is_null(value)) {
        write_value(column, row, value, style, out);
    }
    const json_t *until = column->until ? layout_value(row, column->until) : NULL;
    if (out[0] != '\0' && json_is_integer(until)) {
        size_t used = strlen(out);
        (void)snprintf(out + used, LAYOUT_CELL_SIZE - used, "/%" JSON_INTEGER_FORMAT,
                       json_integer_value(until));
    }
    bool known = out[0] != '\0';
    if (!known) {
        (void)snprintf(out, LAYOUT_CELL_SIZE, "-");
    }
    if (strlen(out) + 1 == LAYOUT_CELL_SIZE) {
        utf8_mark_cut(out, LAYOUT_CELL_SIZE);
    }
    utf8_repair_line(out);
    return known;
}

/* ---- rows ---- */

/* Columns of a text on a terminal, each character counted as one. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    size_t left = strlen(text);
    for (size_t size; left > 0; left -= size, text += size) {
        size = utf8_sequence(text, left);
        ASSERT(size > 0);
        width++;
    }
    return width;
}

static bool shown(const struct column *column, const struct layout_style *style)
{
    return style->wide || !column->wide;
}

/* The last column is not padded: lines have no spaces at their ends. */
static int add_padded(struct buf *out, const char *text, size_t width, bool last, struct err *err)
{
    size_t own = width_of(text);
    size_t pad = last ? 0 : (width > own ? width - own : 0) + 2;
    return buf_printf(out, err, "%s%*s", text, (int)pad, "");
}

static size_t last_column(const struct layout *layout, const struct layout_style *style)
{
    size_t last = layout->column_count - 1;
    while (last > 0 && !shown(&layout->column[last], style)) {
        last--;
    }
    return last;
}

static int add_line(const struct layout *layout, const struct layout_style *style, cell_text *cell,
                    struct buf *out, struct err *err)
{
    size_t last = last_column(layout, style);
    int rc = 0;
    for (size_t c = 0; !rc && c < layout->column_count; c++) {
        if (shown(&layout->column[c], style)) {
            rc = add_padded(out, cell ? cell[c] : layout->column[c].title, style->width[c],
                            c == last, err);
        }
    }
    return rc ? rc : buf_append(out, "\n", 1, err);
}

static int add_rows(const struct layout *layout, const json_t *rows, struct layout_style *style,
                    cell_text *cells, struct buf *out, struct err *err)
{
    const size_t columns = layout->column_count;
    const size_t count = json_array_size(rows);
    for (size_t c = 0; c < columns && !style->titled; c++) {
        style->width[c] = strlen(layout->column[c].title);
    }
    for (size_t r = 0; r < count; r++) {
        for (size_t c = 0; c < columns; c++) {
            cell_text *cell = &cells[r * columns + c];
            (void)write_cell(&layout->column[c], json_array_get(rows, r), style->row_count + r,
                             style, *cell);
            size_t width = width_of(*cell);
            style->width[c] = width > style->width[c] ? width : style->width[c];
        }
    }
    int rc = style->titled ? 0 : add_line(layout, style, NULL, out, err);
    for (size_t r = 0; !rc && r < count; r++) {
        rc = add_line(layout, style, &cells[r * columns], out, err);
    }
    style->titled = true;
    style->row_count += count;
    return rc;
}

/* Add one line "TITLE  value" per column. Absent values are left out. */
static int add_values(const struct column *column, size_t count, const json_t *object,
                      const struct layout_style *style, struct buf *out, struct err *err)
{
    size_t width = 0;
    for (size_t c = 0; c < count; c++) {
        size_t own = strlen(column[c].title);
        width = own > width ? own : width;
    }
    int rc = 0;
    for (size_t c = 0; !rc && c < count; c++) {
        cell_text cell;
        if (write_cell(&column[c], object, 0, style, cell)) {
            rc = buf_printf(out, err, "%-*s  %s\n", (int)width, column[c].title, cell);
        }
    }
    return rc;
}

/* Return the layout of the answer: the variant whose rows it has, or the layout itself. */
static const struct layout *fitting(const struct layout *layout, const json_t *answer)
{
    for (size_t i = 0; layout->variant && layout->variant[i]; i++) {
        if (json_is_array(layout_value(answer, layout->variant[i]->rows))) {
            return layout->variant[i];
        }
    }
    return layout;
}

int layout_rows(const struct layout *layout, const json_t *answer, struct layout_style *style,
                struct buf *out, struct err *err)
{
    layout = fitting(layout, answer);
    ASSERT(layout->column_count <= LAYOUT_COLUMNS_MAX);
    const json_t *rows = layout_value(answer, layout->rows);
    cell_text *cells = calloc(json_array_size(rows) * layout->column_count + 1, sizeof(*cells));
    if (!cells) {
        return err_set(err, ERR_MEMORY, "no memory for a table");
    }
    int rc = add_rows(layout, rows, style, cells, out, err);
    free(cells);
    if (!rc && layout->summary) {
        rc = buf_append(out, "\n", 1, err);
        rc = rc ? rc : add_values(layout->summary, layout->summary_count, answer, style, out, err);
    }
    return rc;
}

int layout_object(const struct layout *layout, const json_t *object,
                  const struct layout_style *style, struct buf *out, struct err *err)
{
    return add_values(layout->column, layout->column_count, object, style, out, err);
}

static int add_id(const struct layout *layout, const json_t *row, struct buf *out, struct err *err)
{
    cell_text text = "";
    write_scalar(layout_value(row, layout->id), text);
    utf8_repair_line(text);
    return text[0] == '\0' ? 0 : buf_printf(out, err, "%s\n", text);
}

int layout_ids(const struct layout *layout, const json_t *answer, struct buf *out, struct err *err)
{
    layout = fitting(layout, answer);
    if (layout->rows[0] == '\0') {
        return add_id(layout, answer, out, err);
    }
    const json_t *rows = layout_value(answer, layout->rows);
    int rc = 0;
    for (size_t r = 0; !rc && r < json_array_size(rows); r++) {
        rc = add_id(layout, json_array_get(rows, r), out, err);
    }
    return rc;
}

bool layout_names_devices(const struct layout *layout)
{
    for (size_t c = 0; c < layout->column_count; c++) {
        if (layout->column[c].cell == CELL_DEVICE || layout->column[c].cell == CELL_DEVICES) {
            return true;
        }
    }
    return false;
}
