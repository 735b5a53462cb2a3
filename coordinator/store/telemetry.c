/* Telemetry waits in memory and is written in one transaction per flush. It arrives with every
 * heartbeat and does not justify a synchronous commit each. */
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/store/reserve.h"
#include "coordinator/store/sql.h"
#include "coordinator/store/state_store.h"

#define TEXT_SIZE 64
#define POINTS_FIRST 256
#define POINTS_MAX 16384 /* waiting; then the next one flushes by itself */

enum telemetry_statement { METRIC_PUT, METRIC_LIST, METRIC_LIST_NAMED, STATEMENTS };

static const char *const texts[STATEMENTS] = {
    [METRIC_PUT] = "INSERT INTO metrics (job, name, step, value) VALUES (?1, ?2, ?3, ?4) "
                   "ON CONFLICT (job, name, step) DO UPDATE SET value = ?4",
    [METRIC_LIST] = "SELECT step, name, value FROM metrics WHERE job = ?1 AND step > ?2 "
                    "ORDER BY step, name LIMIT ?3",
    [METRIC_LIST_NAMED] =
        "SELECT step, name, value FROM metrics WHERE job = ?1 AND name = ?4 AND step > ?2 "
        "ORDER BY step LIMIT ?3",
};

/* A metric of one step. */
struct point {
    char job[TEXT_SIZE];
    char name[TEXT_SIZE];
    int64_t step;
    double value;
};

struct telemetry {
    sqlite3 *db; /* borrowed */
    sqlite3_stmt *statement[STATEMENTS];
    struct point *point;
    size_t count, capacity;
};

int telemetry_new(sqlite3 *db, struct telemetry **out, struct err *err)
{
    struct telemetry *telemetry = calloc(1, sizeof(*telemetry));
    if (!telemetry) {
        return err_set(err, ERR_MEMORY, "telemetry: out of memory");
    }
    telemetry->db = db;
    for (int i = 0; i < STATEMENTS; i++) {
        int rc = sql_prepare(db, texts[i], &telemetry->statement[i], err);
        if (rc) {
            telemetry_free(&telemetry);
            return rc;
        }
    }
    *out = telemetry;
    return 0;
}

void telemetry_free(struct telemetry **place)
{
    struct telemetry *telemetry = *place;
    if (!telemetry) {
        return;
    }
    for (int i = 0; i < STATEMENTS; i++) {
        sql_finalize(&telemetry->statement[i]);
    }
    free(telemetry->point);
    free(telemetry);
    *place = NULL;
}

void telemetry_forget(struct telemetry *telemetry, const char *job)
{
    size_t kept = 0;
    for (size_t i = 0; i < telemetry->count; i++) {
        const struct point *point = &telemetry->point[i];
        if (strcmp(point->job, job) != 0) {
            telemetry->point[kept++] = *point;
        }
    }
    telemetry->count = kept;
}

static int copy_text(char out[TEXT_SIZE], const char *text, const char *what, struct err *err)
{
    size_t size = strlen(text);
    if (size >= TEXT_SIZE) {
        return err_set(err, ERR_LIMIT, "telemetry: %s '%.80s' is longer than %d bytes", what, text,
                       TEXT_SIZE - 1);
    }
    memcpy(out, text, size + 1);
    return 0;
}

/* Make room for one more point, by a flush if necessary. */
static int make_room(struct state_store *store, struct err *err)
{
    struct telemetry *telemetry = store->telemetry;
    if (telemetry->count < telemetry->capacity) {
        return 0;
    }
    if (telemetry->capacity == POINTS_MAX) {
        if (store->in_transaction) {
            return err_set(err, ERR_LIMIT, "telemetry: %d points wait and a turn is open",
                           POINTS_MAX);
        }
        return state_flush(store, err);
    }
    size_t capacity = telemetry->capacity ? telemetry->capacity * 2 : POINTS_FIRST;
    struct point *larger = realloc(telemetry->point, capacity * sizeof(*larger));
    if (!larger) {
        return err_set(err, ERR_MEMORY, "telemetry: out of memory");
    }
    telemetry->point = larger;
    telemetry->capacity = capacity;
    return 0;
}

int state_metric(struct state_store *store, const char *job, int64_t step, const char *name,
                 double value, struct err *err)
{
    struct point point = {.step = step, .value = value};
    int rc = copy_text(point.job, job, "job", err);
    rc = rc ? rc : copy_text(point.name, name, "metric", err);
    rc = rc ? rc : make_room(store, err);
    if (rc == 0) {
        store->telemetry->point[store->telemetry->count++] = point;
    }
    return rc;
}

/* SQLite stores "not a number" as NULL by itself. */
static int put_point(struct telemetry *telemetry, const struct point *point, struct err *err)
{
    sqlite3_stmt *statement = telemetry->statement[METRIC_PUT];
    bool ok = sqlite3_bind_text(statement, 1, point->job, -1, SQLITE_STATIC) == SQLITE_OK &&
              sqlite3_bind_text(statement, 2, point->name, -1, SQLITE_STATIC) == SQLITE_OK &&
              sqlite3_bind_int64(statement, 3, point->step) == SQLITE_OK &&
              sqlite3_bind_double(statement, 4, point->value) == SQLITE_OK;
    return ok ? sql_run(telemetry->db, statement, err) : sql_fail(telemetry->db, "bind", err);
}

static int write_points(struct state_store *store, struct err *err)
{
    struct telemetry *telemetry = store->telemetry;
    int rc = sql_exec(telemetry->db, "BEGIN IMMEDIATE", err);
    for (size_t i = 0; rc == 0 && i < telemetry->count; i++) {
        rc = put_point(telemetry, &telemetry->point[i], err);
    }
    if (rc == 0) {
        rc = measurements_write(store->measurements, err);
    }
    if (rc == 0) {
        rc = sql_exec(telemetry->db, "COMMIT", err);
    }
    if (rc) {
        sql_rollback(telemetry->db);
    }
    return rc;
}

int state_flush(struct state_store *store, struct err *err)
{
    ASSERT(!store->in_transaction);
    struct telemetry *telemetry = store->telemetry;
    /* Retried at every flush until the disk has room again; the release of the reserve logged a
     * warning. */
    (void)reserve_refill(store->reserve);
    if (telemetry->count == 0 && !measurements_wait(store->measurements)) {
        return 0;
    }
    struct err inner = {0};
    int rc = write_points(store, &inner);
    measurements_written(store->measurements, rc == 0); /* the history is the first to go */
    if (rc) {
        /* Telemetry never uses the reserve: the points wait in their bounded memory until the disk
         * has room. */
        return err_set(err, rc, "telemetry: %s", inner.text);
    }
    telemetry->count = 0;
    return 0;
}

static int bind_query(struct telemetry *telemetry, sqlite3_stmt *statement, const char *job,
                      const char *name, int64_t since, size_t limit, struct err *err)
{
    const uint64_t wide = limit;
    const int64_t most = wide > INT64_MAX ? INT64_MAX : (int64_t)wide;
    bool ok = sqlite3_bind_text(statement, 1, job, -1, SQLITE_STATIC) == SQLITE_OK &&
              sqlite3_bind_int64(statement, 2, since) == SQLITE_OK &&
              sqlite3_bind_int64(statement, 3, most) == SQLITE_OK &&
              (!name || sqlite3_bind_text(statement, 4, name, -1, SQLITE_STATIC) == SQLITE_OK);
    return ok ? 0 : sql_fail(telemetry->db, "bind", err);
}

int state_metrics(struct state_store *store, const char *job, const char *name, int64_t since,
                  size_t limit, state_metric_fn visit, void *arg, struct err *err)
{
    struct telemetry *telemetry = store->telemetry;
    sqlite3_stmt *statement = telemetry->statement[name ? METRIC_LIST_NAMED : METRIC_LIST];
    ASSERT(!sqlite3_stmt_busy(statement));
    int rc = bind_query(telemetry, statement, job, name, since, limit, err);
    while (rc == 0) {
        bool there = false;
        rc = sql_step(telemetry->db, statement, &there, err);
        if (rc || !there) {
            break;
        }
        bool number = sqlite3_column_type(statement, 2) != SQLITE_NULL;
        if (!visit(arg, sqlite3_column_int64(statement, 0),
                   (const char *)sqlite3_column_text(statement, 1),
                   number ? sqlite3_column_double(statement, 2) : (double)NAN)) {
            (void)sqlite3_reset(statement);
            (void)sqlite3_clear_bindings(statement);
            break;
        }
    }
    return rc;
}

/* ---- thinning ---- */

static const char thin_text[] =
    "DELETE FROM metrics WHERE (job, name, step) IN (SELECT job, name, step FROM "
    "(SELECT job, name, step,"
    " row_number() OVER (PARTITION BY job, name ORDER BY step) - 1 AS place,"
    " count(*) OVER (PARTITION BY job, name) AS points FROM metrics WHERE job IN "
    "(SELECT id FROM jobs WHERE parent = ?1 UNION ALL SELECT ?1)) "
    "WHERE points > ?2 AND place * (?2 - 1) / (points - 1) = (place - 1) * (?2 - 1) / (points - 1) "
    "AND place > 0)";

int state_thin_metrics(struct state_store *store, const char *job, size_t keep, size_t *thinned,
                       struct err *err)
{
    struct telemetry *telemetry = store->telemetry;
    sqlite3_stmt *statement = NULL;
    ASSERT(!store->in_transaction && keep >= 2);
    int rc = sql_prepare(telemetry->db, thin_text, &statement, err);
    if (rc == 0 && (sqlite3_bind_text(statement, 1, job, -1, SQLITE_STATIC) != SQLITE_OK ||
                    sqlite3_bind_int64(statement, 2, (int64_t)keep) != SQLITE_OK)) {
        rc = sql_fail(telemetry->db, "bind", err);
    }
    rc = rc ? rc : sql_run(telemetry->db, statement, err);
    sql_finalize(&statement);
    if (rc == 0) {
        *thinned = (size_t)sqlite3_changes(telemetry->db);
    }
    return rc;
}
