/* sql.h: common operations on SQLite connections: open, run, prepare, step, and describe a failure
 * in one line. Private to coordinator/store. A connection and its statements belong to one thread
 * at a time. */
#ifndef COORDINATOR_STORE_SQL_H
#define COORDINATOR_STORE_SQL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct sqlite3;
struct sqlite3_stmt;

/* Open or create a database file that only its owner may read. Waits up to 10 s for another
 * process's lock. */
NODISCARD int sql_open(const char *path, struct sqlite3 **out, struct err *err);
/* Open for reading a file that no process writes. */
NODISCARD int sql_open_read(const char *path, struct sqlite3 **out, struct err *err);
/* Close a connection. Every statement must have been finalized. */
void sql_close(struct sqlite3 **db);

/* Describe the last failure of SQLite as "WHAT: reason". Returns ERR_FULL (disk full, quota),
 * ERR_FORMAT (corrupt, no database), ERR_STATE (locked), ERR_MEMORY, ERR_LIMIT (value too large) or
 * ERR_IO. */
NODISCARD int sql_fail(struct sqlite3 *db, const char *what, struct err *err);

/* Run statements and ignore their rows. */
NODISCARD int sql_exec(struct sqlite3 *db, const char *text, struct err *err);
/* Undo the open transaction, unless SQLite has already done so after a failed write. */
void sql_rollback(struct sqlite3 *db);
NODISCARD int sql_prepare(struct sqlite3 *db, const char *text, struct sqlite3_stmt **out,
                          struct err *err);
void sql_finalize(struct sqlite3_stmt **statement);
/* Do one step of a statement. *row: whether there is a row to read. A statement without a further
 * row, or that failed, is reset. */
NODISCARD int sql_step(struct sqlite3 *db, struct sqlite3_stmt *statement, bool *row,
                       struct err *err);
/* Run a prepared statement that returns no rows. */
NODISCARD int sql_run(struct sqlite3 *db, struct sqlite3_stmt *statement, struct err *err);
/* Read the only integer of a query. */
NODISCARD int sql_integer(struct sqlite3 *db, const char *text, int64_t *out, struct err *err);

#endif
