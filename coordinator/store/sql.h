/* sql.h: the common work with SQLite connections: open, run, prepare, step, and describe a failure
 * in one line. Private to coordinator/store. A connection and its statements belong to one thread
 * at a time. */
#ifndef COORDINATOR_STORE_SQL_H
#define COORDINATOR_STORE_SQL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct sqlite3;
struct sqlite3_stmt;

/* Open or create a database file, readable by its owner alone. Another process's lock is waited
 * for, for 10 s. */
NODISCARD int sql_open(const char *path, struct sqlite3 **out, struct err *err);
/* Open a file that nobody writes, for reading only. */
NODISCARD int sql_open_read(const char *path, struct sqlite3 **out, struct err *err);
/* Every statement has to be finalized before. */
void sql_close(struct sqlite3 **db);

/* Describe the last failure of SQLite: "WHAT: reason". ERR_FULL (disk full, quota), ERR_FORMAT
 * (corrupt, no database), ERR_STATE (locked), ERR_MEMORY, ERR_LIMIT (value too large) or ERR_IO. */
NODISCARD int sql_fail(struct sqlite3 *db, const char *what, struct err *err);

/* Run statements that give no rows of interest. */
NODISCARD int sql_exec(struct sqlite3 *db, const char *text, struct err *err);
/* Undo the open transaction; SQLite may have done so by itself when a write failed. */
void sql_rollback(struct sqlite3 *db);
NODISCARD int sql_prepare(struct sqlite3 *db, const char *text, struct sqlite3_stmt **out,
                          struct err *err);
void sql_finalize(struct sqlite3_stmt **statement);
/* One step of a statement; it is reset when it gave no row, or failed. *row: whether there is a row
 * to read. */
NODISCARD int sql_step(struct sqlite3 *db, struct sqlite3_stmt *statement, bool *row,
                       struct err *err);
/* Step a statement that gives no rows. */
NODISCARD int sql_run(struct sqlite3 *db, struct sqlite3_stmt *statement, struct err *err);
/* The one integer that a query gives. */
NODISCARD int sql_integer(struct sqlite3 *db, const char *text, int64_t *out, struct err *err);

#endif
