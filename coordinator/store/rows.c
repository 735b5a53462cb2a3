#include <sqlite3.h>
#include <stdio.h>

#include "base/assert.h"
#include "coordinator/store/sql.h"
#include "coordinator/store/state_store.h"

#define SQL_SIZE 640

static const char *const table_names[STATE_TABLES] = {
    [STATE_DEVICES] = "devices",
    [STATE_JOBS] = "jobs",
    [STATE_PLANS] = "plans",
    [STATE_DATASETS] = "datasets",
    [STATE_MODELS] = "models",
    [STATE_CHECKPOINTS] = "checkpoints",
    [STATE_CENTER_UNITS] = "center_units",
    [STATE_DESCRIPTIONS] = "descriptions",
    [STATE_REPLAYS] = "replays",
    [STATE_EVENTS] = "events",
    [STATE_INCIDENTS] = "incidents",
    [STATE_MIXES] = "mixes",
    [STATE_PARENTS] = "parents",
    [STATE_TOKENS] = "tokens",
    [STATE_AUDIT] = "audit",
    [STATE_META] = "meta",
};

/* A statement is its text before and after the name of the table (trim names it twice).
 * Parameters: ?1 id, ?2 parent, ?3 revision, ?4 created_ms, ?5 document, ?6 a count; of a search ?7
 * states and ?8 a pattern of names. */
struct statement_text {
    const char *head;
    const char *tail;
    const char *second_tail; /* NULL, or the text after the second name */
};

#define COLUMNS "SELECT id, parent, revision, created_ms, document FROM "
/* The document of a row that matches a search, else NULL. A damaged document matches, so that its
 * reader reports the damage. */
#define MATCHING                                                                                   \
    "SELECT id, parent, revision, created_ms, CASE WHEN (?7 = '' AND ?8 = '') OR NOT "             \
    "json_valid(document) OR ((?7 = '' OR instr(?7, ',' || json_extract(document, '$.state') || "  \
    "',') > 0) AND (?8 = '' OR json_extract(document, '$.spec.name') GLOB ?8)) THEN document END " \
    "FROM "
#define OF_JOB "parent IN (SELECT id FROM jobs WHERE parent = ?2 UNION ALL SELECT ?2)"
static const struct statement_text statement_texts[ROW_STATEMENTS] = {
    [CHANGE_PUT] = {"INSERT INTO ",
                    " (id, parent, revision, created_ms, document) VALUES (?1, ?2, ?3, ?4, ?5) ON "
                    "CONFLICT (id) DO "
                    "UPDATE SET parent = ?2, revision = ?3, created_ms = ?4, document = ?5",
                    NULL},
    [CHANGE_ADD] = {"INSERT INTO ",
                    " (id, parent, revision, created_ms, document) VALUES (?1, ?2, ?3, ?4, ?5) ON "
                    "CONFLICT (id) DO NOTHING",
                    NULL},
    [CHANGE_DELETE] = {"DELETE FROM ", " WHERE id = ?1", NULL},
    [CHANGE_DELETE_CHILDREN] = {"DELETE FROM ", " WHERE parent = ?2", NULL},
    [CHANGE_DELETE_CHILDREN_BELOW] = {"DELETE FROM ", " WHERE parent = ?2 AND id < ?1", NULL},
    [CHANGE_TRIM] = {"DELETE FROM ", " WHERE id <= (SELECT id FROM ",
                     " ORDER BY id DESC LIMIT 1 OFFSET ?6)"},
    [ROW_GET] = {COLUMNS, " WHERE id = ?1", NULL},
    [ROW_LIST] = {COLUMNS, " WHERE id > ?1 ORDER BY id LIMIT ?6", NULL},
    [ROW_LIST_NEWEST] = {COLUMNS, " WHERE (?1 = '' OR id < ?1) ORDER BY id DESC LIMIT ?6", NULL},
    [ROW_LIST_CHILDREN] = {COLUMNS, " WHERE parent = ?2 AND id > ?1 ORDER BY id LIMIT ?6", NULL},
    [ROW_LIST_CHILDREN_NEWEST] =
        {COLUMNS, " WHERE parent = ?2 AND (?1 = '' OR id < ?1) ORDER BY id DESC LIMIT ?6", NULL},
    [ROW_SEARCH] = {MATCHING, " WHERE id > ?1 ORDER BY id LIMIT ?6", NULL},
    [ROW_SEARCH_NEWEST] = {MATCHING, " WHERE (?1 = '' OR id < ?1) ORDER BY id DESC LIMIT ?6", NULL},
    [ROW_SEARCH_CHILDREN] = {MATCHING, " WHERE parent = ?2 AND id > ?1 ORDER BY id LIMIT ?6", NULL},
    [ROW_SEARCH_CHILDREN_NEWEST] =
        {MATCHING, " WHERE parent = ?2 AND (?1 = '' OR id < ?1) ORDER BY id DESC LIMIT ?6", NULL},
    [ROW_SEARCH_OF_JOB] = {MATCHING, " WHERE " OF_JOB " AND id > ?1 ORDER BY id LIMIT ?6", NULL},
    [ROW_SEARCH_OF_JOB_NEWEST] = {MATCHING,
                                  " WHERE " OF_JOB
                                  " AND (?1 = '' OR id < ?1) ORDER BY id DESC LIMIT ?6",
                                  NULL},
};

/* Return the prepared statement, which must not be in use. */
static int statement_of(struct rows *rows, enum state_table table, int which, sqlite3_stmt **out,
                        struct err *err)
{
    ASSERT((unsigned)table < STATE_TABLES && (unsigned)which < ROW_STATEMENTS);
    sqlite3_stmt **slot = &rows->statement[table][which];
    if (!*slot) {
        const struct statement_text *text = &statement_texts[which];
        char sql[SQL_SIZE];
        int length = snprintf(sql, sizeof(sql), "%s%s%s%s%s", text->head, table_names[table],
                              text->tail, text->second_tail ? table_names[table] : "",
                              text->second_tail ? text->second_tail : "");
        ASSERT(length > 0 && (size_t)length < sizeof(sql));
        int rc = sql_prepare(rows->db, sql, slot, err);
        if (rc) {
            return rc;
        }
    }
    /* A visitor that queries the same kind of rows would reset the cursor of its own list. */
    ASSERT(!sqlite3_stmt_busy(*slot));
    *out = *slot;
    return 0;
}

static bool takes(sqlite3_stmt *statement, int parameter)
{
    return parameter <= sqlite3_bind_parameter_count(statement);
}

static int bind(struct rows *rows, sqlite3_stmt *statement, const struct state_row *row,
                int64_t count, struct err *err)
{
    /* Numbered parameters count up to the largest one used; those in between may be set without
     * harm. */
    int rc = sqlite3_bind_text(statement, 1, row->id, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK && takes(statement, 2)) {
        rc = sqlite3_bind_text(statement, 2, row->parent, -1, SQLITE_STATIC);
    }
    if (rc == SQLITE_OK && takes(statement, 5)) {
        rc = sqlite3_bind_int64(statement, 3, row->revision);
        rc = rc == SQLITE_OK ? sqlite3_bind_int64(statement, 4, row->created_ms) : rc;
        rc = rc == SQLITE_OK ? sqlite3_bind_text64(statement, 5, row->document, row->document_size,
                                                   SQLITE_STATIC, SQLITE_UTF8)
                             : rc;
    }
    if (rc == SQLITE_OK && takes(statement, 6)) {
        rc = sqlite3_bind_int64(statement, 6, count);
    }
    return rc == SQLITE_OK ? 0 : sql_fail(rows->db, "bind", err);
}

static int64_t count_of(uint64_t count)
{
    return count > INT64_MAX ? INT64_MAX : (int64_t)count;
}

int rows_apply(struct rows *rows, const struct change *change, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = statement_of(rows, change->table, (int)change->kind, &statement, err);
    if (rc == 0) {
        rc = bind(rows, statement, &change->row, count_of(change->keep), err);
    }
    if (rc == 0) {
        rc = sql_run(rows->db, statement, err);
    }
    return rc == 0 ? 0 : err_wrap(err, "%s '%s'", table_names[change->table], change->row.id);
}

void rows_done(struct rows *rows)
{
    for (int table = 0; table < STATE_TABLES; table++) {
        for (int which = 0; which < ROW_STATEMENTS; which++) {
            sql_finalize(&rows->statement[table][which]);
        }
    }
}

static const char *text_of(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text ? (const char *)text : "";
}

/* Step through the rows of a bound statement. *visited: their number. */
static int visit_rows(struct rows *rows, sqlite3_stmt *statement, state_visit_fn visit, void *arg,
                      size_t *visited, struct err *err)
{
    *visited = 0;
    for (;;) {
        bool there = false;
        int rc = sql_step(rows->db, statement, &there, err);
        if (rc || !there) {
            return rc;
        }
        struct state_row row = {
            .id = text_of(statement, 0),
            .parent = text_of(statement, 1),
            .revision = sqlite3_column_int64(statement, 2),
            .created_ms = sqlite3_column_int64(statement, 3),
            .document = text_of(statement, 4),
            .document_size = (size_t)sqlite3_column_bytes(statement, 4),
        };
        (*visited)++;
        if (!visit(arg, &row)) {
            (void)sqlite3_reset(statement);
            (void)sqlite3_clear_bindings(statement);
            return 0;
        }
    }
}

static int list_rows(struct rows *rows, enum state_table table, enum row_query which,
                     const struct state_row *key, size_t limit, state_visit_fn visit, void *arg,
                     struct err *err)
{
    sqlite3_stmt *statement = NULL;
    size_t visited = 0;
    int rc = statement_of(rows, table, (int)which, &statement, err);
    if (rc == 0) {
        rc = bind(rows, statement, key, count_of(limit), err);
    }
    if (rc == 0) {
        rc = visit_rows(rows, statement, visit, arg, &visited, err);
    }
    return rc == 0 ? 0 : err_wrap(err, "list %s", table_names[table]);
}

int state_list(struct state_store *store, enum state_table table, const char *parent,
               const char *after_id, size_t limit, bool newest_first, state_visit_fn visit,
               void *arg, struct err *err)
{
    enum row_query which = parent ? (newest_first ? ROW_LIST_CHILDREN_NEWEST : ROW_LIST_CHILDREN)
                                  : (newest_first ? ROW_LIST_NEWEST : ROW_LIST);
    const struct state_row key = {
        .id = after_id ? after_id : "", .parent = parent ? parent : "", .document = ""};
    return list_rows(&store->rows, table, which, &key, limit, visit, arg, err);
}

int state_search(struct state_store *store, enum state_table table, const struct state_query *query,
                 state_visit_fn visit, void *arg, struct err *err)
{
    struct rows *rows = &store->rows;
    sqlite3_stmt *statement = NULL;
    size_t visited = 0;
    const int rising = query->job      ? ROW_SEARCH_OF_JOB
                       : query->parent ? ROW_SEARCH_CHILDREN
                                       : ROW_SEARCH;
    const int which = rising + query->newest_first; /* each _NEWEST follows */
    const char *parent = query->job ? query->job : query->parent ? query->parent : "";
    const struct state_row key = {.id = query->after_id, .parent = parent, .document = ""};
    int rc = statement_of(rows, table, which, &statement, err);
    rc = rc ? rc : bind(rows, statement, &key, count_of(query->limit), err);
    if (rc == 0 && (sqlite3_bind_text(statement, 7, query->states, -1, SQLITE_STATIC) ||
                    sqlite3_bind_text(statement, 8, query->name, -1, SQLITE_STATIC))) {
        rc = sql_fail(rows->db, "bind", err);
    }
    rc = rc ? rc : visit_rows(rows, statement, visit, arg, &visited, err);
    return rc == 0 ? 0 : err_wrap(err, "search %s", table_names[table]);
}

int state_count(struct state_store *store, enum state_table table, size_t *out, struct err *err)
{
    char sql[SQL_SIZE];
    int64_t count = 0;
    (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table_names[table]);
    int rc = sql_integer(store->db, sql, &count, err);
    *out = rc == 0 ? (size_t)count : *out;
    return rc;
}

int state_get(struct state_store *store, enum state_table table, const char *id,
              state_visit_fn visit, void *arg, struct err *err)
{
    struct state_row key = {.id = id, .parent = "", .document = ""};
    sqlite3_stmt *statement = NULL;
    size_t visited = 0;
    int rc = statement_of(&store->rows, table, ROW_GET, &statement, err);
    if (rc == 0) {
        rc = bind(&store->rows, statement, &key, 0, err);
    }
    if (rc == 0) {
        rc = visit_rows(&store->rows, statement, visit, arg, &visited, err);
    }
    if (rc) {
        return err_wrap(err, "get %s '%s'", table_names[table], id);
    }
    return visited ? 0 : err_set(err, ERR_NOT_FOUND, "%s has no '%s'", table_names[table], id);
}
