/* state_store.h: shared by the files that implement state.h. Private to coordinator/store. One
 * thread: the loop's. */
#ifndef COORDINATOR_STORE_STATE_STORE_H
#define COORDINATOR_STORE_STATE_STORE_H

#include <limits.h>

#include "base/buf.h"
#include "coordinator/store/change.h"
#include "coordinator/store/state.h"

struct sqlite3;
struct sqlite3_stmt;
struct reserve;
struct telemetry;
struct measurements;

/* The PRAGMAs by which a commit to state.db survives a power cut (docs/adr/0017). */
#define STATE_DURABILITY "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"

/* state_open with other PRAGMAs, to measure their loss of data. */
NODISCARD int state_open_with(const char *directory, const char *durability,
                              struct state_store **out, struct err *err);

/* ---- rows.c: rows as SQL; statements are prepared at first use and kept ---- */
enum row_query {
    ROW_GET =
        CHANGE_KINDS, /* after the kinds of changes: one index for all statements of a table */
    ROW_LIST,
    ROW_LIST_NEWEST,
    ROW_LIST_CHILDREN,
    ROW_LIST_CHILDREN_NEWEST,
    ROW_SEARCH,
    ROW_SEARCH_NEWEST,
    ROW_SEARCH_CHILDREN,
    ROW_SEARCH_CHILDREN_NEWEST,
    ROW_SEARCH_OF_JOB,
    ROW_SEARCH_OF_JOB_NEWEST,
    ROW_STATEMENTS,
};

struct rows {
    struct sqlite3 *db; /* borrowed */
    struct sqlite3_stmt *statement[STATE_TABLES][ROW_STATEMENTS];
};

NODISCARD int rows_apply(struct rows *rows, const struct change *change, struct err *err);
void rows_done(struct rows *rows);

/* ---- telemetry.c ---- */
NODISCARD int telemetry_new(struct sqlite3 *db, struct telemetry **out, struct err *err);
void telemetry_free(struct telemetry **telemetry);
/* Drop the waiting points of a job that was just deleted. */
void telemetry_forget(struct telemetry *telemetry, const char *job);

/* ---- measurements.c ---- */
NODISCARD int measurements_new(struct sqlite3 *db, struct measurements **out, struct err *err);
void measurements_free(struct measurements **measurements);
bool measurements_wait(const struct measurements *measurements);
/* Write the waiting rows in the open transaction. */
NODISCARD int measurements_write(struct measurements *measurements, struct err *err);
/* After the transaction, drop all waiting rows or only those of the history. */
void measurements_written(struct measurements *measurements, bool all);

struct state_store {
    struct sqlite3 *db;
    char directory[PATH_MAX];
    int owner; /* lock file */
    struct reserve *reserve;
    struct rows rows;
    struct telemetry *telemetry;
    struct measurements *measurements;
    struct buf log; /* changes of the open transaction */
    bool in_transaction;
    bool held;  /* the disk is full: only the log has the changes; the next commit retries */
    int failed; /* the first failure of the open transaction, which can only be rolled back */
};

#endif
