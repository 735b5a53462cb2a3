/* The other half of the writer: opens its database and reclaims rows without an owner. */
#include <sqlite3.h>
#include <stdlib.h>

#include "base/log.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/blob_writer.h"
#include "coordinator/store/migrate.h"
#include "coordinator/store/snapshot.h"
#include "coordinator/store/sql.h"

#define REMOVE_CHUNKS 16 /* a transaction */
#define VACUUM_PAGES 64  /* a transaction: 4 MiB that may have to move */
/* Free pages that stay in the file for the next blobs. Moving pages costs as much as writing them,
 * and a store that replaces old checkpoints would move them continually. */
#define KEPT_PAGES 256
#define KEPT_SHARE 8

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

static const char *const statement_texts[WRITER_STATEMENTS] = {
    [WRITER_ADD_ROW] = "INSERT OR IGNORE INTO blobs (id, sha256, size) VALUES (?1, NULL, 0)",
    [WRITER_ADD_CHUNK] = "INSERT OR REPLACE INTO chunks (id, data) VALUES (?1, ?2)",
    [WRITER_FIND] = "SELECT size FROM blobs WHERE sha256 = ?1",
    [WRITER_PUBLISH] = ("INSERT INTO blobs (id, sha256, size) VALUES (?1, ?2, ?3) "
                        "ON CONFLICT (id) DO UPDATE SET sha256 = ?2, size = ?3"),
    [WRITER_WITHDRAW] = "UPDATE blobs SET sha256 = NULL WHERE sha256 = ?1 RETURNING size",
    [WRITER_NEXT_GARBAGE] =
        "SELECT id FROM blobs WHERE sha256 IS NULL AND id > ?1 ORDER BY id LIMIT 1",
    [WRITER_REMOVE_CHUNKS] =
        ("DELETE FROM chunks WHERE id IN (SELECT id FROM chunks WHERE id >= ?1 << 20 AND "
         "id < (?1 + 1) << 20 LIMIT " TEXT(REMOVE_CHUNKS) ")"),
    [WRITER_REMOVE_ROW] = "DELETE FROM blobs WHERE id = ?1",
    [WRITER_FREE_PAGES] = "PRAGMA freelist_count",
    [WRITER_PAGES] = "PRAGMA page_count",
};

static int run_with_id(struct blob_writer *writer, enum writer_statement which, int64_t id,
                       struct err *err)
{
    if (sqlite3_bind_int64(writer->statement[which], 1, id) != SQLITE_OK) {
        return sql_fail(writer->db, "bind", err);
    }
    return sql_run(writer->db, writer->statement[which], err);
}

/* One transaction. *left: there are more. */
static int remove_some(struct blob_writer *writer, int64_t id, bool *left, struct err *err)
{
    int rc = sql_exec(writer->db, "BEGIN IMMEDIATE", err);
    if (rc == 0) {
        rc = run_with_id(writer, WRITER_REMOVE_CHUNKS, id, err);
    }
    bool more = rc == 0 && sqlite3_changes(writer->db) == REMOVE_CHUNKS;
    if (rc == 0 && !more) {
        rc = run_with_id(writer, WRITER_REMOVE_ROW, id, err);
    }
    rc = blob_writer_end(writer, rc, err);
    *left = more;
    return rc;
}

int blob_reclaim_one(struct blob_writer *writer, int64_t id, struct err *err)
{
    bool left = true;
    int rc = 0;
    while (rc == 0 && left) {
        rc = remove_some(writer, id, &left, err);
    }
    return rc;
}

/* The next id after *id without an owner; *id becomes 0 if there is none. */
static int next_garbage(struct blob_writer *writer, int64_t *id, struct err *err)
{
    sqlite3_stmt *statement = writer->statement[WRITER_NEXT_GARBAGE];
    bool there = true;
    for (int64_t after = *id; there;) {
        if (sqlite3_bind_int64(statement, 1, after) != SQLITE_OK) {
            return sql_fail(writer->db, "bind", err);
        }
        int rc = sql_step(writer->db, statement, &there, err);
        if (rc) {
            return rc;
        }
        if (there) {
            after = sqlite3_column_int64(statement, 0);
            (void)sqlite3_reset(statement);
            if (!blob_queue_owns(&writer->store->queue, after)) {
                *id = after;
                return 0;
            }
        }
    }
    *id = 0;
    return 0;
}

int blob_reclaim_all(struct blob_writer *writer, struct err *err)
{
    int64_t id = 0;
    if (snapshot_is_open(writer->store->directory)) {
        return 0;
    }
    int rc = next_garbage(writer, &id, err);
    while (rc == 0 && id != 0) {
        rc = blob_reclaim_one(writer, id, err);
        rc = rc ? rc : next_garbage(writer, &id, err);
    }
    return rc;
}

static int integer_of(struct blob_writer *writer, enum writer_statement which, int64_t *out,
                      struct err *err)
{
    bool there = false;
    int rc = sql_step(writer->db, writer->statement[which], &there, err);
    if (rc == 0) {
        *out = there ? sqlite3_column_int64(writer->statement[which], 0) : 0;
        (void)sqlite3_reset(writer->statement[which]);
    }
    return rc;
}

void blob_update_reusable(struct blob_writer *writer)
{
    int64_t pages = 0;
    if (integer_of(writer, WRITER_FREE_PAGES, &pages, NULL) == 0) {
        atomic_store(&writer->store->reusable_bytes, (uint64_t)pages * BLOB_PAGE_BYTES);
    }
}

/* *left: more is left to release. */
static int vacuum_some(struct blob_writer *writer, bool *left, struct err *err)
{
    int64_t unused = 0, pages = 0;
    int rc = integer_of(writer, WRITER_FREE_PAGES, &unused, err);
    rc = rc ? rc : integer_of(writer, WRITER_PAGES, &pages, err);
    int64_t kept = pages / KEPT_SHARE > KEPT_PAGES ? pages / KEPT_SHARE : KEPT_PAGES;
    *left = rc == 0 && unused > kept;
    if (!*left) {
        return rc;
    }
    rc = sql_exec(writer->db, "BEGIN IMMEDIATE", err);
    if (rc == 0) {
        rc = sql_exec(writer->db, "PRAGMA incremental_vacuum(" TEXT(VACUUM_PAGES) ")", err);
    }
    return blob_writer_end(writer, rc, err);
}

bool blob_reclaim_step(struct blob_writer *writer)
{
    struct err err = {0};
    int64_t id = 0;
    bool left = true;
    int rc = next_garbage(writer, &id, &err);
    writer->is_held = rc == 0 && id != 0 && snapshot_is_open(writer->store->directory);
    if (writer->is_held) {
        return true;
    }
    if (rc == 0 && id != 0) {
        bool same_left;
        rc = remove_some(writer, id, &same_left, &err);
    } else if (rc == 0) {
        rc = vacuum_some(writer, &left, &err);
    }
    blob_update_reusable(writer);
    if (rc) {
        log_warn("blob_reclaim_failed", "error=%s", log_quote(err.text).text);
    }
    return rc == 0 && left;
}

/* Both must be set before the first page is written. On an existing file the second would be a
 * write, which fails at a start on a full disk. */
static int prepare_new_file(struct blob_writer *writer, struct err *err)
{
    int64_t pages = 0;
    int rc = sql_integer(writer->db, "PRAGMA page_count", &pages, err);
    if (rc || pages > 0) {
        return rc;
    }
    return sql_exec(
        writer->db,
        "PRAGMA page_size = " TEXT(BLOB_PAGE_BYTES) "; PRAGMA auto_vacuum = INCREMENTAL", err);
}

static int prepare_database(struct blob_writer *writer, const char *durability, struct err *err)
{
    /* Without secure_delete (Debian's build has it on) freed pages are not overwritten. A batch
     * stays in memory until its commit: pages that spill earlier would lock out readers for all of
     * the batch. */
    int rc = prepare_new_file(writer, err);
    rc = rc ? rc
            : sql_exec(
                  writer->db,
                  "PRAGMA secure_delete = OFF; PRAGMA cache_spill = OFF; PRAGMA cache_size = -2048;"
                  "PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 16777216",
                  err);
    rc = rc ? rc : sql_exec(writer->db, durability, err);
    rc = rc ? rc : migrate_run(writer->db, checkpoint_migrations, BLOB_APPLICATION_ID, NULL, err);
    for (int i = 0; rc == 0 && i < WRITER_STATEMENTS; i++) {
        rc = sql_prepare(writer->db, statement_texts[i], &writer->statement[i], err);
    }
    return rc;
}

static int read_totals(struct blob_writer *writer, int64_t *next_id, struct err *err)
{
    int64_t blobs = 0, bytes = 0;
    int rc =
        sql_integer(writer->db, "SELECT count(*) FROM blobs WHERE sha256 IS NOT NULL", &blobs, err);
    rc = rc ? rc
            : sql_integer(writer->db,
                          "SELECT coalesce(sum(size), 0) FROM blobs WHERE sha256 IS NOT NULL",
                          &bytes, err);
    rc = rc ? rc
            : sql_integer(writer->db, "SELECT coalesce(max(id), 0) + 1 FROM blobs", next_id, err);
    if (rc == 0) {
        atomic_store(&writer->store->blobs, (uint64_t)blobs);
        atomic_store(&writer->store->bytes, (uint64_t)bytes);
    }
    return rc;
}

/* Deleting needs a journal. On a full disk it is postponed, and the coordinator starts
 * nevertheless. */
static int reclaim_at_start(struct blob_writer *writer, struct err *err)
{
    int rc = blob_reclaim_all(writer, err);
    if (rc == ERR_FULL) {
        log_warn("blob_reclaim_failed", "error=%s", log_quote(err->text).text);
        *err = (struct err){0};
        rc = 0;
    }
    return rc;
}

int blob_writer_open(struct blob_store *store, const char *durability, struct blob_writer **out,
                     int64_t *next_id, struct err *err)
{
    struct blob_writer *writer = calloc(1, sizeof(*writer));
    if (!writer) {
        return err_set(err, ERR_MEMORY, "blob store: out of memory");
    }
    writer->store = store;
    int rc = sql_open(store->path, &writer->db, err);
    if (rc == 0) {
        rc = prepare_database(writer, durability, err) ? err_wrap(err, "%s", store->path) : 0;
    }
    rc = rc ? rc : reclaim_at_start(writer, err);
    rc = rc ? rc : read_totals(writer, next_id, err);
    if (rc) {
        blob_writer_close(&writer);
        return rc;
    }
    writer->has_garbage = true; /* free pages, perhaps */
    blob_update_reusable(writer);
    *out = writer;
    return 0;
}

void blob_writer_close(struct blob_writer **place)
{
    struct blob_writer *writer = *place;
    if (!writer) {
        return;
    }
    for (int i = 0; i < WRITER_STATEMENTS; i++) {
        sql_finalize(&writer->statement[i]);
    }
    if (writer->db) {
        sql_close(&writer->db);
    }
    free(writer);
    *place = NULL;
}
