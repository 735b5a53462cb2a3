#include "coordinator/store/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>

#include "base/assert.h"
#include "base/file.h"

#define BUSY_TIMEOUT_MS 10000

static int error_code(sqlite3 *db)
{
    int reason = sqlite3_system_errno(db);
    switch (sqlite3_errcode(db) & 0xff) {
    case SQLITE_FULL: return ERR_FULL;
    case SQLITE_NOMEM: return ERR_MEMORY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return ERR_FORMAT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return ERR_STATE;
    case SQLITE_TOOBIG: return ERR_LIMIT;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        /* SQLite reports a quota, and a full disk outside of a plain write, as input/output
         * errors. */
        return reason == ENOSPC || reason == EDQUOT ? ERR_FULL : ERR_IO;
    default: return ERR_IO;
    }
}

int sql_fail(sqlite3 *db, const char *what, struct err *err)
{
    int extended = sqlite3_extended_errcode(db);
    int reason = sqlite3_system_errno(db);
    int primary = extended & 0xff;
    if (reason != 0 && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN)) {
        return err_set(err, error_code(db), "%s: %s (SQLite %d): %s", what, sqlite3_errmsg(db),
                       extended, strerror(reason));
    }
    return err_set(err, error_code(db), "%s: %s (SQLite %d)", what, sqlite3_errmsg(db), extended);
}

/* SQLite would create the file readable by all; the journals take the mode of the database. An
 * existing file is not opened, because closing it would release the locks of all connections of
 * this process. */
static int create_private(const char *path, struct err *err)
{
    FD_AUTO int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST) {
        int reason = errno;
        int rc = err_from_errno(reason);
        return err_set(err, rc == ERR_NOT_FOUND ? ERR_IO : rc, "open '%s': %s", path,
                       strerror(reason));
    }
    return 0;
}

static int open_file(const char *path, int flags, sqlite3 **out, struct err *err)
{
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL) !=
        SQLITE_OK) {
        const int rc = db ? sql_fail(db, path, err)
                          : err_set(err, ERR_MEMORY, "open '%s': out of memory", path);
        (void)sqlite3_close(db);
        return rc;
    }
    (void)sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
    *out = db;
    return 0;
}

int sql_open(const char *path, sqlite3 **out, struct err *err)
{
    sqlite3 *db = NULL;
    int rc = create_private(path, err);
    rc = rc ? rc : open_file(path, SQLITE_OPEN_READWRITE, &db, err);
    if (rc) {
        return rc;
    }
    if (sqlite3_db_readonly(db, "main") == 1) {
        (void)sqlite3_close(db);
        return err_set(err, ERR_IO, "open '%s': no permission to write", path);
    }
    *out = db;
    return 0;
}

int sql_open_read(const char *path, sqlite3 **out, struct err *err)
{
    return open_file(path, SQLITE_OPEN_READONLY, out, err);
}

void sql_close(sqlite3 **db)
{
    int rc = sqlite3_close(*db);
    ASSERT(rc == SQLITE_OK);
    *db = NULL;
}

int sql_exec(sqlite3 *db, const char *text, struct err *err)
{
    return sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : sql_fail(db, text, err);
}

void sql_rollback(sqlite3 *db)
{
    if (!sqlite3_get_autocommit(db)) {
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    }
}

int sql_prepare(sqlite3 *db, const char *text, sqlite3_stmt **out, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) !=
        SQLITE_OK) {
        return sql_fail(db, text, err);
    }
    *out = statement;
    return 0;
}

void sql_finalize(sqlite3_stmt **statement)
{
    (void)sqlite3_finalize(*statement);
    *statement = NULL;
}

int sql_step(sqlite3 *db, sqlite3_stmt *statement, bool *row, struct err *err)
{
    int step = sqlite3_step(statement);
    if (step == SQLITE_ROW) {
        *row = true;
        return 0;
    }
    int rc = step == SQLITE_DONE ? 0 : sql_fail(db, sqlite3_sql(statement), err);
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    if (rc == 0) {
        *row = false;
    }
    return rc;
}

int sql_run(sqlite3 *db, sqlite3_stmt *statement, struct err *err)
{
    bool row = false;
    int rc = sql_step(db, statement, &row, err);
    ASSERT(!row);
    return rc;
}

int sql_integer(sqlite3 *db, const char *text, int64_t *out, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    bool row = false;
    int rc = sql_prepare(db, text, &statement, err);
    if (rc == 0) {
        rc = sql_step(db, statement, &row, err);
    }
    if (rc == 0 && !row) {
        rc = err_set(err, ERR_FORMAT, "%s: no answer", text);
    }
    if (rc == 0) {
        *out = sqlite3_column_int64(statement, 0);
    }
    sql_finalize(&statement);
    return rc;
}
