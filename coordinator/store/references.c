#include "coordinator/store/references.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/store/sql.h"
#include "coordinator/store/state_store.h"

#define SQL_SIZE 640

enum content { BLOB, TEXT };

static const struct reference {
    enum content content;
    const char *table, *path; /* of the hash in the document */
    bool live;                /* jobs: contents named only by ended jobs may be deleted */
} references[] = {
    {BLOB, "datasets", "$.sha256", false},
    {BLOB, "checkpoints", "$.sha256", false},
    {BLOB, "center_units", "$.sha256", false},
    {BLOB, "jobs", "$.data.train_sha256", true},
    {BLOB, "jobs", "$.data.test_sha256", true},
    {BLOB, "jobs", "$.data.joint_sha256", true},
    {BLOB, "jobs", "$.data.checkpoint_sha256", true},
    {TEXT, "jobs", "$.spec.model.sha256", false},
    {TEXT, "models", "$.sha256", false},
    {TEXT, "datasets", "$.class_names_sha256", false},
};
#define REFERENCES (sizeof(references) / sizeof(references[0]))

#define LIVE                                                                                       \
    " WHERE CASE WHEN json_valid(document) THEN json_extract(document, '$.state') NOT IN "         \
    "('succeeded', 'failed', 'cancelled') ELSE 1 END"

static const char *text_of(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text ? (const char *)text : "";
}

static int visit_rows(sqlite3 *db, const struct reference *reference, state_reference_fn visit,
                      void *arg, bool *goes_on, struct err *err)
{
    char text[SQL_SIZE];
    sqlite3_stmt *statement = NULL;
    bool there = true;
    const int length = snprintf(text, sizeof(text),
                                "SELECT id, json_valid(document), CASE WHEN json_valid(document) "
                                "THEN json_extract(document, '%s') END FROM %s%s",
                                reference->path, reference->table, reference->live ? LIVE : "");
    ASSERT(length > 0 && (size_t)length < sizeof(text));
    int rc = sql_prepare(db, text, &statement, err);
    while (rc == 0 && *goes_on) {
        rc = sql_step(db, statement, &there, err);
        if (rc || !there) {
            break;
        }
        const char *sha256 = sqlite3_column_int(statement, 1) ? text_of(statement, 2) : NULL;
        const bool none = sha256 && !sha256[0];
        if (!none || !reference->live) { /* a job may name none; without it others are damaged */
            *goes_on = visit(arg, reference->table, text_of(statement, 0), none ? NULL : sha256);
        }
    }
    sql_finalize(&statement);
    return rc;
}

int references_visit(sqlite3 *db, state_reference_fn visit, void *arg, struct err *err)
{
    bool goes_on = true;
    int rc = 0;
    for (size_t i = 0; rc == 0 && goes_on && i < REFERENCES; i++) {
        if (references[i].content == BLOB) {
            rc = visit_rows(db, &references[i], visit, arg, &goes_on, err);
        }
    }
    return rc;
}

int state_references(struct state_store *store, state_reference_fn visit, void *arg,
                     struct err *err)
{
    return references_visit(store->db, visit, arg, err);
}

/* An unreadable document fails the statement; then all texts stay. */
int state_sweep_texts(struct state_store *store, size_t *removed, struct err *err)
{
    char text[4 * SQL_SIZE] = "DELETE FROM descriptions WHERE id NOT IN (";
    const char *between = "";
    ASSERT(!store->in_transaction);
    for (size_t i = 0; i < REFERENCES; i++) {
        const struct reference *reference = &references[i];
        if (reference->content == TEXT) {
            const size_t used = strlen(text);
            (void)snprintf(text + used, sizeof(text) - used,
                           "%sSELECT coalesce(json_extract(document, '%s'), '') FROM %s", between,
                           reference->path, reference->table);
            between = " UNION ";
        }
    }
    const size_t used = strlen(text);
    ASSERT(used + 2 < sizeof(text));
    memcpy(text + used, ")", 2);
    const int rc = sql_exec(store->db, text, err);
    if (rc == 0) {
        *removed = (size_t)sqlite3_changes(store->db);
    }
    return rc;
}
