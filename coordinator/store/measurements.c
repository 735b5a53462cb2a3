/* Rows of measurements wait in memory and are written with the telemetry, in one transaction per
 * flush. They arrive with heartbeats and do not justify a synchronous commit each. */
#include "coordinator/store/measurements.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/store/sql.h"
#include "coordinator/store/state_store.h"

#define TEXT_SIZE 64
#define TEXTS 3
#define INTEGERS 3
#define REALS 5
#define ITEMS_FIRST 256
#define ITEMS_MAX 32768 /* waiting */
#define MINUTE_MS 60000
#define HOUR_MS 3600000
/* Drop the rows of a history before ?4. Its rows are in the order of device and time: from one
 * device to the next by the key, so that no row that stays is read. */
#define TRIM_HISTORY(table)                                                                        \
    "WITH RECURSIVE known(id) AS (SELECT min(device) FROM " table " UNION ALL "                    \
    "SELECT (SELECT min(device) FROM " table " WHERE device > id) FROM known "                     \
    "WHERE id IS NOT NULL) "                                                                       \
    "DELETE FROM " table " WHERE device IN (SELECT id FROM known) AND wall_ms < ?4"
/* Rows that were written after their device was deleted. */
#define IS_UNKNOWN(column) column " NOT IN (SELECT id FROM devices)"

enum measurement_statement {
    PUT_CAPACITY,
    PUT_UNIT_TIME,
    PUT_LINK_TIME,
    PUT_MINUTE,
    PUT_HOUR,
    LIST_CAPACITIES,
    LIST_UNIT_TIMES,
    LIST_LINK_TIMES,
    LIST_MEASUREMENTS,
    TRIM_MINUTES,
    TRIM_HOURS,
    TRIM_UNIT_TIMES,
    TRIM_CAPACITIES,
    TRIM_LINK_TIMES,
    STATEMENTS
};

/* Parameters: texts from 1, integers from 4, reals from 7, the numbers 12. */
static const char *const texts[STATEMENTS] = {
    [PUT_CAPACITY] = "INSERT OR REPLACE INTO capacities (device, wall_ms, numbers) "
                     "VALUES (?1, ?4, ?12)",
    [PUT_UNIT_TIME] = "INSERT OR REPLACE INTO unit_times "
                      "(device, shape, wall_ms, forward_seconds, backward_seconds) "
                      "VALUES (?1, ?5, ?4, ?7, ?8)",
    [PUT_LINK_TIME] = "INSERT OR REPLACE INTO link_times (sender, receiver, codec, wall_ms, kind, "
                      "count, seconds, bytes, bytes_squared, bytes_seconds) "
                      "VALUES (?1, ?2, ?3, ?4, ?5, ?7, ?8, ?9, ?10, ?11)",
    [PUT_MINUTE] = "INSERT OR REPLACE INTO measurements_by_minute "
                   "(device, job, wall_ms, unit, forward_seconds, backward_seconds) "
                   "VALUES (?1, ?2, ?4, ?5, ?7, ?8)",
    [PUT_HOUR] = "INSERT OR IGNORE INTO measurements_by_hour "
                 "(device, job, wall_ms, unit, forward_seconds, backward_seconds) "
                 "VALUES (?1, ?2, ?4, ?5, ?7, ?8)",
    [LIST_CAPACITIES] = "SELECT device, wall_ms, numbers FROM capacities",
    [LIST_UNIT_TIMES] = "SELECT device, shape, wall_ms, forward_seconds, backward_seconds "
                        "FROM unit_times ORDER BY wall_ms, device, shape",
    [LIST_LINK_TIMES] = "SELECT sender, receiver, codec, kind, wall_ms, count, seconds, bytes, "
                        "bytes_squared, bytes_seconds FROM link_times "
                        "WHERE ?1 = '' OR sender = ?1 OR receiver = ?1 "
                        "ORDER BY sender, receiver, kind, codec",
    [LIST_MEASUREMENTS] =
        "SELECT wall_ms, job, unit, forward_seconds, backward_seconds FROM ("
        "SELECT * FROM measurements_by_hour WHERE device = ?1 AND wall_ms >= ?4 AND wall_ms < "
        "coalesce((SELECT wall_ms - wall_ms % 3600000 FROM measurements_by_minute "
        "WHERE device = ?1 ORDER BY wall_ms LIMIT 1), "
        "9223372036854775807) "
        "UNION ALL SELECT * FROM measurements_by_minute WHERE device = ?1 AND wall_ms >= ?4) "
        "WHERE (?2 = '' OR job = ?2) AND (?5 < 0 OR unit = ?5) "
        "AND (wall_ms, job, unit) > (?4, ?3, ?7) ORDER BY wall_ms, job, unit LIMIT ?6",
    [TRIM_MINUTES] = TRIM_HISTORY("measurements_by_minute"),
    [TRIM_HOURS] = TRIM_HISTORY("measurements_by_hour"),
    [TRIM_UNIT_TIMES] = "DELETE FROM unit_times WHERE wall_ms < ?4",
    [TRIM_CAPACITIES] = "DELETE FROM capacities WHERE device <> '' AND " IS_UNKNOWN("device"),
    [TRIM_LINK_TIMES] =
        "DELETE FROM link_times WHERE " IS_UNKNOWN("sender") " OR " IS_UNKNOWN("receiver"),
};

/* A waiting row: the parameters of its statement. */
struct item {
    enum measurement_statement statement;
    char text[TEXTS][TEXT_SIZE];
    int64_t integer[INTEGERS];
    double real[REALS];
    double *number; /* owned */
    size_t number_count;
};

struct measurements {
    sqlite3 *db; /* borrowed */
    sqlite3_stmt *statement[STATEMENTS];
    struct item *item;
    size_t count, capacity;
};

int measurements_new(sqlite3 *db, struct measurements **out, struct err *err)
{
    struct measurements *measurements = calloc(1, sizeof(*measurements));
    if (!measurements) {
        return err_set(err, ERR_MEMORY, "measurements: out of memory");
    }
    measurements->db = db;
    for (int i = 0; i < STATEMENTS; i++) {
        int rc = sql_prepare(db, texts[i], &measurements->statement[i], err);
        if (rc) {
            measurements_free(&measurements);
            return rc;
        }
    }
    *out = measurements;
    return 0;
}

void measurements_free(struct measurements **place)
{
    struct measurements *measurements = *place;
    if (!measurements) {
        return;
    }
    for (int i = 0; i < STATEMENTS; i++) {
        sql_finalize(&measurements->statement[i]);
    }
    for (size_t i = 0; i < measurements->count; i++) {
        free(measurements->item[i].number);
    }
    free(measurements->item);
    free(measurements);
    *place = NULL;
}

/* ---- rows that wait ---- */

static bool is_history(const struct item *item)
{
    return item->statement == PUT_MINUTE || item->statement == PUT_HOUR;
}

static int add(struct state_store *store, const struct item *item, struct err *err)
{
    struct measurements *measurements = store->measurements;
    if (measurements->count == ITEMS_MAX) {
        return err_set(err, ERR_LIMIT, "measurements: %d rows wait", ITEMS_MAX);
    }
    if (measurements->count == measurements->capacity) {
        size_t capacity = measurements->capacity ? measurements->capacity * 2 : ITEMS_FIRST;
        struct item *larger = realloc(measurements->item, capacity * sizeof(*larger));
        if (!larger) {
            return err_set(err, ERR_MEMORY, "measurements: out of memory");
        }
        measurements->item = larger;
        measurements->capacity = capacity;
    }
    measurements->item[measurements->count++] = *item;
    return 0;
}

static void copy_text(char out[TEXT_SIZE], const char *text)
{
    size_t size = strnlen(text, TEXT_SIZE - 1);
    memcpy(out, text, size);
    out[size] = '\0';
}

int state_put_capacity(struct state_store *store, const struct state_capacity *row, struct err *err)
{
    ASSERT(row->number_count <= MEASUREMENT_NUMBERS_MAX);
    const size_t bytes = row->number_count * sizeof(double);
    struct item item = {.statement = PUT_CAPACITY,
                        .integer = {row->wall_ms},
                        .number = malloc(bytes > 0 ? bytes : 1),
                        .number_count = row->number_count};
    if (!item.number) {
        return err_set(err, ERR_MEMORY, "measurements: out of memory");
    }
    copy_text(item.text[0], row->device);
    memcpy(item.number, row->number, bytes);
    int rc = add(store, &item, err);
    if (rc) {
        free(item.number);
    }
    return rc;
}

int state_put_unit_time(struct state_store *store, const struct state_unit_time *row,
                        struct err *err)
{
    struct item item = {.statement = PUT_UNIT_TIME,
                        .integer = {row->wall_ms, row->shape},
                        .real = {row->forward_seconds, row->backward_seconds}};
    copy_text(item.text[0], row->device);
    return add(store, &item, err);
}

int state_put_link_time(struct state_store *store, const struct state_link_time *row,
                        struct err *err)
{
    struct item item = {
        .statement = PUT_LINK_TIME,
        .integer = {row->wall_ms, row->kind},
        .real = {row->count, row->seconds, row->bytes, row->bytes_squared, row->bytes_seconds}};
    copy_text(item.text[0], row->sender);
    copy_text(item.text[1], row->receiver);
    copy_text(item.text[2], row->codec);
    return add(store, &item, err);
}

int state_put_measurement(struct state_store *store, const struct state_measurement *row,
                          struct err *err)
{
    struct item item = {.statement = PUT_MINUTE,
                        .integer = {row->wall_ms - row->wall_ms % MINUTE_MS, row->unit},
                        .real = {row->forward_seconds, row->backward_seconds}};
    copy_text(item.text[0], row->device);
    copy_text(item.text[1], row->job);
    int rc = add(store, &item, err);
    if (rc == 0) {
        item.statement = PUT_HOUR;
        item.integer[0] = row->wall_ms - row->wall_ms % HOUR_MS;
        rc = add(store, &item, err);
    }
    return rc == ERR_LIMIT ? 0 : rc;
}

/* ---- writing ---- */

static bool takes(sqlite3_stmt *statement, int parameter)
{
    return parameter <= sqlite3_bind_parameter_count(statement);
}

static int bind(struct measurements *measurements, const struct item *item, struct err *err)
{
    sqlite3_stmt *statement = measurements->statement[item->statement];
    bool ok = true;
    for (int i = 0; ok && i < TEXTS && takes(statement, 1 + i); i++) {
        ok = sqlite3_bind_text(statement, 1 + i, item->text[i], -1, SQLITE_STATIC) == SQLITE_OK;
    }
    for (int i = 0; ok && i < INTEGERS && takes(statement, 4 + i); i++) {
        ok = sqlite3_bind_int64(statement, 4 + i, item->integer[i]) == SQLITE_OK;
    }
    for (int i = 0; ok && i < REALS && takes(statement, 7 + i); i++) {
        ok = sqlite3_bind_double(statement, 7 + i, item->real[i]) == SQLITE_OK;
    }
    if (ok && takes(statement, 12)) {
        ok = sqlite3_bind_blob64(statement, 12, item->number, item->number_count * sizeof(double),
                                 SQLITE_STATIC) == SQLITE_OK;
    }
    return ok ? 0 : sql_fail(measurements->db, "bind", err);
}

static int run(struct measurements *measurements, const struct item *item, struct err *err)
{
    int rc = bind(measurements, item, err);
    return rc ? rc : sql_run(measurements->db, measurements->statement[item->statement], err);
}

bool measurements_wait(const struct measurements *measurements)
{
    return measurements->count > 0;
}

int measurements_write(struct measurements *measurements, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < measurements->count; i++) {
        rc = run(measurements, &measurements->item[i], err);
    }
    return rc;
}

void measurements_written(struct measurements *measurements, bool all)
{
    size_t kept = 0;
    for (size_t i = 0; i < measurements->count; i++) {
        if (all || is_history(&measurements->item[i])) {
            free(measurements->item[i].number);
        } else {
            measurements->item[kept++] = measurements->item[i];
        }
    }
    measurements->count = kept;
}

int state_trim_measurements(struct state_store *store, int64_t minutes_from_ms,
                            int64_t hours_from_ms, struct err *err)
{
    const struct item trims[] = {
        {.statement = TRIM_MINUTES, .integer = {minutes_from_ms}},
        {.statement = TRIM_HOURS, .integer = {hours_from_ms}},
        {.statement = TRIM_UNIT_TIMES, .integer = {hours_from_ms}},
        {.statement = TRIM_CAPACITIES},
        {.statement = TRIM_LINK_TIMES},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(trims) / sizeof(trims[0]); i++) {
        rc = add(store, &trims[i], err);
    }
    return rc;
}

/* ---- reading ---- */

static const char *text_of(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text ? (const char *)text : "";
}

/* A row of a statement to its visitor; false: no more. */
typedef bool (*give_fn)(sqlite3_stmt *statement, const void *visitor);

static int list(struct measurements *measurements, const struct item *query, give_fn give,
                const void *visitor, struct err *err)
{
    sqlite3_stmt *statement = measurements->statement[query->statement];
    ASSERT(!sqlite3_stmt_busy(statement));
    int rc = bind(measurements, query, err);
    while (rc == 0) {
        bool there = false;
        rc = sql_step(measurements->db, statement, &there, err);
        if (rc || !there) {
            break;
        }
        if (!give(statement, visitor)) {
            (void)sqlite3_reset(statement);
            (void)sqlite3_clear_bindings(statement);
            break;
        }
    }
    return rc;
}

struct capacity_visitor {
    state_capacity_fn visit;
    void *arg;
};

static bool give_capacity(sqlite3_stmt *statement, const void *visitor)
{
    const struct capacity_visitor *to = visitor;
    double number[MEASUREMENT_NUMBERS_MAX];
    const size_t bytes = (size_t)sqlite3_column_bytes(statement, 2);
    if (bytes > sizeof(number) || bytes % sizeof(double) != 0) {
        return true;
    }
    if (bytes > 0) {
        memcpy(number, sqlite3_column_blob(statement, 2), bytes);
    }
    const struct state_capacity row = {.device = text_of(statement, 0),
                                       .wall_ms = sqlite3_column_int64(statement, 1),
                                       .number = number,
                                       .number_count = bytes / sizeof(double)};
    return to->visit(to->arg, &row);
}

int state_capacities(struct state_store *store, state_capacity_fn visit, void *arg, struct err *err)
{
    const struct capacity_visitor visitor = {visit, arg};
    const struct item query = {.statement = LIST_CAPACITIES};
    return list(store->measurements, &query, give_capacity, &visitor, err);
}

struct unit_time_visitor {
    state_unit_time_fn visit;
    void *arg;
};

static bool give_unit_time(sqlite3_stmt *statement, const void *visitor)
{
    const struct unit_time_visitor *to = visitor;
    const struct state_unit_time row = {.device = text_of(statement, 0),
                                        .shape = sqlite3_column_int64(statement, 1),
                                        .wall_ms = sqlite3_column_int64(statement, 2),
                                        .forward_seconds = sqlite3_column_double(statement, 3),
                                        .backward_seconds = sqlite3_column_double(statement, 4)};
    return to->visit(to->arg, &row);
}

int state_unit_times(struct state_store *store, state_unit_time_fn visit, void *arg,
                     struct err *err)
{
    const struct unit_time_visitor visitor = {visit, arg};
    const struct item query = {.statement = LIST_UNIT_TIMES};
    return list(store->measurements, &query, give_unit_time, &visitor, err);
}

struct link_time_visitor {
    state_link_time_fn visit;
    void *arg;
};

static bool give_link_time(sqlite3_stmt *statement, const void *visitor)
{
    const struct link_time_visitor *to = visitor;
    const struct state_link_time row = {.sender = text_of(statement, 0),
                                        .receiver = text_of(statement, 1),
                                        .codec = text_of(statement, 2),
                                        .kind = sqlite3_column_int64(statement, 3),
                                        .wall_ms = sqlite3_column_int64(statement, 4),
                                        .count = sqlite3_column_double(statement, 5),
                                        .seconds = sqlite3_column_double(statement, 6),
                                        .bytes = sqlite3_column_double(statement, 7),
                                        .bytes_squared = sqlite3_column_double(statement, 8),
                                        .bytes_seconds = sqlite3_column_double(statement, 9)};
    return to->visit(to->arg, &row);
}

int state_link_times(struct state_store *store, const char *device, state_link_time_fn visit,
                     void *arg, struct err *err)
{
    const struct link_time_visitor visitor = {visit, arg};
    struct item query = {.statement = LIST_LINK_TIMES};
    copy_text(query.text[0], device ? device : "");
    return list(store->measurements, &query, give_link_time, &visitor, err);
}

struct measurement_visitor {
    state_measurement_fn visit;
    void *arg;
    const char *device;
};

static bool give_measurement(sqlite3_stmt *statement, const void *visitor)
{
    const struct measurement_visitor *to = visitor;
    const struct state_measurement row = {.device = to->device,
                                          .wall_ms = sqlite3_column_int64(statement, 0),
                                          .job = text_of(statement, 1),
                                          .unit = sqlite3_column_int64(statement, 2),
                                          .forward_seconds = sqlite3_column_double(statement, 3),
                                          .backward_seconds = sqlite3_column_double(statement, 4)};
    return to->visit(to->arg, &row);
}

int state_measurements(struct state_store *store, const char *device, const char *job, int64_t unit,
                       const struct state_measurement *after, size_t limit,
                       state_measurement_fn visit, void *arg, struct err *err)
{
    const struct measurement_visitor visitor = {visit, arg, device};
    struct item query = {
        .statement = LIST_MEASUREMENTS,
        .integer = {after->wall_ms, unit, limit > INT32_MAX ? INT32_MAX : (int64_t)limit},
        .real = {(double)after->unit}};
    copy_text(query.text[0], device);
    copy_text(query.text[1], job ? job : "");
    copy_text(query.text[2], after->job);
    return list(store->measurements, &query, give_measurement, &visitor, err);
}
