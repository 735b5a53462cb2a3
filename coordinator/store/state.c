#include "coordinator/store/state.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/log.h"
#include "coordinator/store/migrate.h"
#include "coordinator/store/owner.h"
#include "coordinator/store/path.h"
#include "coordinator/store/reserve.h"
#include "coordinator/store/sql.h"
#include "coordinator/store/state_store.h"
#include "coordinator/store/vacuum.h"

#define LOG_BYTES_KEPT 262144u

/* WAL needs shared memory beside the file, unless one process has the file for itself (EXCLUSIVE,
 * set before the first access). Sorting never goes to a file: the disk may be full. */
static int open_database(const char *path, const char *durability, const char *locking,
                         sqlite3 **out, struct err *err)
{
    int rc = sql_open(path, out, err);
    rc = rc ? rc : sql_exec(*out, "PRAGMA temp_store = MEMORY", err);
    rc = rc ? rc : sql_exec(*out, locking, err);
    rc = rc ? rc : vacuum_prepare(*out, err);
    rc = rc ? rc : sql_exec(*out, durability, err);
    rc = rc ? rc : sql_exec(*out, "PRAGMA journal_size_limit = 16777216", err);
    if (rc && *out) {
        sql_close(out);
    }
    return rc;
}

/* Backups read the file while it is open (docs/adr/0115), except after a start on a disk without
 * room for the shared memory. */
static int open_shared(const char *path, const char *durability, sqlite3 **out, struct err *err)
{
    struct err inner = {0};
    int rc = open_database(path, durability, "PRAGMA locking_mode = NORMAL", out, &inner);
    if (rc != ERR_FULL && rc != ERR_IO) {
        return rc ? err_set(err, rc, "%s", inner.text) : 0;
    }
    rc = open_database(path, durability, "PRAGMA locking_mode = EXCLUSIVE", out, err);
    if (rc == 0) {
        log_warn("state_not_shared", "error=%s", log_quote(inner.text).text);
    }
    return rc;
}

static int open_parts(struct state_store *store, const char *directory, const char *durability,
                      struct err *err)
{
    char path[PATH_MAX], backup[PATH_MAX];
    int rc = path_join(path, directory, "state.db", err);
    if (rc == 0) {
        rc = path_join(backup, directory, "state.db.before-upgrade", err);
    }
    (void)snprintf(store->directory, sizeof(store->directory), "%s", directory);
    if (rc == 0) {
        rc = file_make_directory(directory, 0700, err);
    }
    if (rc == 0) {
        rc = owner_take(directory, "state.lock", "coordinator", &store->owner, err);
    }
    if (rc == 0) {
        rc = open_shared(path, durability, &store->db, err);
        rc = rc ? rc : migrate_run(store->db, state_migrations, STATE_APPLICATION_ID, backup, err);
        rc = rc ? rc : vacuum_convert(store->db, directory, err);
        rc = rc ? err_wrap(err, "%s", path) : 0;
    }
    if (rc == 0) {
        store->rows.db = store->db;
        rc = reserve_open(directory, "state.reserve", &store->reserve, err);
    }
    rc = rc ? rc : telemetry_new(store->db, &store->telemetry, err);
    return rc ? rc : measurements_new(store->db, &store->measurements, err);
}

int state_open_with(const char *directory, const char *durability, struct state_store **out,
                    struct err *err)
{
    struct state_store *store = calloc(1, sizeof(*store));
    if (!store) {
        return err_set(err, ERR_MEMORY, "state store: out of memory");
    }
    store->owner = -1;
    buf_init(&store->log, CHANGE_LOG_BYTES_MAX);
    int rc = open_parts(store, directory, durability, err);
    if (rc) {
        state_close(&store);
        return rc;
    }
    /* A coordinator must start on a full disk too: only it can delete the rows and blobs that fill
     * it. */
    struct err reserve_err = {0};
    if (reserve_fill(store->reserve, &reserve_err)) {
        log_warn("state_reserve_missing", "error=%s", log_quote(reserve_err.text).text);
    }
    *out = store;
    return 0;
}

int state_open(const char *directory, struct state_store **out, struct err *err)
{
    return state_open_with(directory, STATE_DURABILITY, out, err);
}

void state_close(struct state_store **place)
{
    struct state_store *store = *place;
    if (!store) {
        return;
    }
    if (store->in_transaction) {
        state_rollback(store);
    }
    struct err err = {0};
    if (store->measurements && state_flush(store, &err)) {
        log_warn("telemetry_lost", "error=%s", log_quote(err.text).text);
    }
    telemetry_free(&store->telemetry);
    measurements_free(&store->measurements);
    rows_done(&store->rows);
    if (store->db) {
        sql_close(&store->db);
    }
    reserve_close(&store->reserve);
    buf_done(&store->log);
    file_close(&store->owner);
    free(store);
    *place = NULL;
}

/* A turn of megabytes is rare, so its memory is freed afterwards. */
static void clear_log(struct state_store *store)
{
    if (store->log.capacity > LOG_BYTES_KEPT) {
        buf_done(&store->log);
        buf_init(&store->log, CHANGE_LOG_BYTES_MAX);
    }
    buf_clear(&store->log);
}

/* Begin again and apply all changes of the open transaction. */
static int replay(struct state_store *store, struct err *err)
{
    int rc = sql_exec(store->db, "BEGIN IMMEDIATE", err);
    struct change change;
    size_t offset = 0;
    while (rc == 0 && change_log_next(&store->log, &offset, &change)) {
        rc = rows_apply(&store->rows, &change, err);
    }
    return rc;
}

/* The disk is full: release the reserve and repeat the whole turn. err holds the failure; it stays
 * if no reserve is left. */
static int retry_on_reserve(struct state_store *store, struct err *err)
{
    sql_rollback(store->db);
    if (!reserve_release(store->reserve)) {
        return ERR_FULL;
    }
    log_warn("state_reserve_used", "freed_bytes=%u", RESERVE_BYTES);
    return replay(store, err);
}

/* On a full disk without a reserve, only log changes until a commit finds room for all of them. */
static int hold_when_full(struct state_store *store, int rc)
{
    if (rc == ERR_FULL) {
        sql_rollback(store->db);
        store->held = true;
    }
    return rc == ERR_FULL ? 0 : rc;
}

int state_begin(struct state_store *store, struct err *err)
{
    ASSERT(!store->in_transaction);
    buf_clear(&store->log);
    store->failed = 0;
    store->held = false;
    struct err inner = {0};
    int rc = sql_exec(store->db, "BEGIN IMMEDIATE", &inner);
    if (rc == ERR_FULL) {
        rc = retry_on_reserve(store, &inner);
    }
    rc = hold_when_full(store, rc);
    if (rc) {
        sql_rollback(store->db);
        return err_set(err, rc, "%s", inner.text);
    }
    store->in_transaction = true;
    return 0;
}

int state_commit(struct state_store *store, struct err *err)
{
    ASSERT(store->in_transaction);
    if (store->failed) {
        const int failed = store->failed;
        state_rollback(store);
        return err_set(err, failed, "commit: an earlier change of this turn failed");
    }
    struct err inner = {0};
    int rc = store->held ? replay(store, &inner) : 0;
    rc = rc ? rc : sql_exec(store->db, "COMMIT", &inner);
    if (rc == ERR_FULL) {
        rc = retry_on_reserve(store, &inner);
        rc = rc ? rc : sql_exec(store->db, "COMMIT", &inner);
    }
    if (rc) {
        sql_rollback(store->db);
        store->held = rc == ERR_FULL;
    }
    if (rc != ERR_FULL) {
        store->in_transaction = store->held = false;
        clear_log(store);
    }
    return rc ? err_set(err, rc, "%s", inner.text) : 0;
}

void state_rollback(struct state_store *store)
{
    ASSERT(store->in_transaction);
    sql_rollback(store->db);
    store->in_transaction = store->held = false;
    store->failed = 0;
    clear_log(store);
}

int state_check_room(const struct state_store *store, uint64_t min_free_bytes, struct err *err)
{
    uint64_t free_bytes = 0;
    int rc = file_free_bytes(store->directory, &free_bytes, err);
    /* Uncommitted changes are written twice: to the journal, and from there to the database. */
    const uint64_t least_bytes = min_free_bytes + 2 * store->log.size;
    if (rc == 0 && free_bytes < least_bytes) {
        rc = err_set(err, ERR_FULL, "'%s' has %llu bytes free; %llu must stay free",
                     store->directory, (unsigned long long)free_bytes,
                     (unsigned long long)min_free_bytes);
    } else if (rc == 0 && !reserve_filled(store->reserve) &&
               free_bytes - least_bytes < RESERVE_BYTES) {
        rc =
            err_set(err, ERR_FULL, "'%s' has %llu bytes free; it must have %u more than --min-free",
                    store->directory, (unsigned long long)free_bytes, RESERVE_BYTES);
    }
    return rc;
}

bool state_in_transaction(const struct state_store *store)
{
    return store->in_transaction;
}

static int make_change(struct state_store *store, const struct change *change, struct err *err)
{
    ASSERT(store->in_transaction);
    if (store->failed) {
        return err_set(err, store->failed, "an earlier change of this turn failed");
    }
    struct err inner = {0};
    int rc = change_log_append(&store->log, change, &inner);
    if (rc == 0 && !store->held) {
        rc = rows_apply(&store->rows, change, &inner);
        rc = rc == ERR_FULL ? retry_on_reserve(store, &inner) : rc;
        rc = hold_when_full(store, rc);
    }
    store->failed = rc;
    return rc ? err_set(err, rc, "%s", inner.text) : 0;
}

int state_put(struct state_store *store, enum state_table table, const struct state_row *row,
              struct err *err)
{
    ASSERT(row->id && row->id[0] && row->document);
    const enum change_kind kind = table == STATE_MIXES ? CHANGE_ADD : CHANGE_PUT;
    struct change change = {.kind = kind, .table = table, .row = *row};
    change.row.parent = row->parent ? row->parent : "";
    return make_change(store, &change, err);
}

int state_delete(struct state_store *store, enum state_table table, const char *id, struct err *err)
{
    struct change change = {
        .kind = CHANGE_DELETE, .table = table, .row = {.id = id, .parent = "", .document = ""}};
    int rc = make_change(store, &change, err);
    if (rc == 0 && table == STATE_JOBS) {
        telemetry_forget(store->telemetry, id);
    }
    return rc;
}

int state_delete_children(struct state_store *store, enum state_table table, const char *parent,
                          const char *below_id, struct err *err)
{
    struct change change = {
        .kind = below_id ? CHANGE_DELETE_CHILDREN_BELOW : CHANGE_DELETE_CHILDREN,
        .table = table,
        .row = {.id = below_id ? below_id : "", .parent = parent, .document = ""},
    };
    return make_change(store, &change, err);
}

int state_trim(struct state_store *store, enum state_table table, size_t keep, struct err *err)
{
    struct change change = {.kind = CHANGE_TRIM,
                            .table = table,
                            .row = {.id = "", .parent = "", .document = ""},
                            .keep = keep};
    return make_change(store, &change, err);
}
