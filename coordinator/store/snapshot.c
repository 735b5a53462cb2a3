#include "coordinator/store/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/migrate.h"
#include "coordinator/store/owner.h"
#include "coordinator/store/path.h"
#include "coordinator/store/references.h"
#include "coordinator/store/sql.h"
#include "net/hash.h"

#define LOCK_NAME "backup.lock"
#define SURVEYS_MAX 5
#define COPY_PAGES 256 /* a step */

struct snapshot {
    int lock;
    sqlite3 *state; /* in a read transaction */
    sqlite3 *blobs; /* NULL: no checkpoints.db */
    sqlite3_stmt *chunk;
    char *piece;                /* [BLOB_CHUNK_BYTES] */
    struct snapshot_blob *blob; /* sorted by hash, each once */
    size_t count, capacity;
    size_t missing;
    int64_t schema;
    uint64_t state_bytes;
};

static const char blobs_text[] = "SELECT sha256, id, size FROM blobs WHERE sha256 IS NOT NULL";

/* The coordinator only queries this lock and never holds it, so that a query cannot make a backup
 * fail. The other lock of the file (owner.h) allows one backup at a time. */
static struct flock mark_of(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

static int set_mark(int fd, struct err *err)
{
    struct flock mark = mark_of(F_WRLCK);
    return fcntl(fd, F_OFD_SETLK, &mark) == 0
               ? 0
               : err_set(err, ERR_IO, "lock '" LOCK_NAME "': %s", strerror(errno));
}

bool snapshot_is_open(const char *directory)
{
    char path[PATH_MAX];
    if (path_join(path, directory, LOCK_NAME, NULL)) {
        return false;
    }
    FD_AUTO int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno != ENOENT; /* in doubt the blobs stay */
    }
    struct flock mark = mark_of(F_RDLCK);
    return fcntl(fd, F_OFD_GETLK, &mark) != 0 || mark.l_type != F_UNLCK;
}

/* ---- the list of blobs ---- */

static int compare_blobs(const void *a, const void *b)
{
    const struct snapshot_blob *left = a, *right = b;
    const int by_hash = strcmp(left->sha256, right->sha256);
    /* The newest copy with a hash comes first: an older one was damaged, or is deleted. */
    return by_hash ? by_hash : (left->id < right->id) - (left->id > right->id);
}

static int add_blob(struct snapshot *snapshot, const char *sha256, int64_t id, int64_t size,
                    struct err *err)
{
    if (strlen(sha256) != BLOB_SHA256_SIZE - 1) {
        return err_set(err, ERR_FORMAT, "a row names the blob '%.80s'", sha256);
    }
    if (snapshot->count == snapshot->capacity) {
        const size_t capacity = snapshot->capacity ? 2 * snapshot->capacity : 256;
        struct snapshot_blob *larger = realloc(snapshot->blob, capacity * sizeof(*larger));
        if (!larger) {
            return err_set(err, ERR_MEMORY, "out of memory");
        }
        snapshot->blob = larger;
        snapshot->capacity = capacity;
    }
    struct snapshot_blob *blob = &snapshot->blob[snapshot->count++];
    *blob = (struct snapshot_blob){.id = id, .size = (uint64_t)size};
    memcpy(blob->sha256, sha256, BLOB_SHA256_SIZE);
    return 0;
}

static const char *text_of(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text ? (const char *)text : "";
}

static int add_stored(struct snapshot *snapshot, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    bool there = snapshot->blobs != NULL;
    int rc = there ? sql_prepare(snapshot->blobs, blobs_text, &statement, err) : 0;
    while (rc == 0 && there) {
        rc = sql_step(snapshot->blobs, statement, &there, err);
        if (rc == 0 && there) {
            rc = add_blob(snapshot, text_of(statement, 0), sqlite3_column_int64(statement, 1),
                          sqlite3_column_int64(statement, 2), err);
        }
    }
    sql_finalize(&statement);
    return rc;
}

struct naming {
    struct snapshot *snapshot;
    int code;
    struct err *err;
};

static bool add_named(void *arg, const char *table, const char *id, const char *sha256)
{
    struct naming *naming = arg;
    naming->code = sha256
                       ? add_blob(naming->snapshot, sha256, 0, 0, naming->err)
                       : err_set(naming->err, ERR_FORMAT,
                                 "state.db is damaged: row '%.60s' of %s is not JSON", id, table);
    return naming->code == 0;
}

static int add_references(struct snapshot *snapshot, struct err *err)
{
    struct naming naming = {.snapshot = snapshot, .err = err};
    const int rc = references_visit(snapshot->state, add_named, &naming, err);
    return rc ? rc : naming.code;
}

/* Keep one entry per hash, and count the hashes without a copy. */
static void merge(struct snapshot *snapshot)
{
    size_t kept = 0;
    if (snapshot->count > 0) {
        qsort(snapshot->blob, snapshot->count, sizeof(*snapshot->blob), compare_blobs);
    }
    snapshot->missing = 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        if (kept == 0 || strcmp(snapshot->blob[i].sha256, snapshot->blob[kept - 1].sha256) != 0) {
            snapshot->blob[kept++] = snapshot->blob[i];
            snapshot->missing += snapshot->blob[i].id == 0;
        }
    }
    snapshot->count = kept;
}

/* Read the rows between two lists of the blobs. A blob is stored before the row that names it and
 * deleted after it, so it is in one of the lists, unless it was stored and deleted in between. */
static int survey(struct snapshot *snapshot, struct err *err)
{
    int64_t pages = 0, page_bytes = 0;
    snapshot->count = 0;
    int rc = add_stored(snapshot, err);
    rc = rc ? rc : sql_exec(snapshot->state, "BEGIN", err);
    rc = rc ? rc : sql_integer(snapshot->state, "PRAGMA user_version", &snapshot->schema, err);
    rc = rc ? rc : sql_integer(snapshot->state, "PRAGMA page_count", &pages, err);
    rc = rc ? rc : sql_integer(snapshot->state, "PRAGMA page_size", &page_bytes, err);
    if (rc == 0 && snapshot->schema == 0) {
        return err_set(err, ERR_FORMAT, "state.db holds no tables");
    }
    if (rc == 0 && snapshot->schema > migrate_newest(state_migrations)) {
        return err_set(err, ERR_UNSUPPORTED,
                       "state.db was made by a newer version (schema %lld): use that version's "
                       "paceline-coordinator",
                       (long long)snapshot->schema);
    }
    rc = rc ? rc : add_references(snapshot, err);
    rc = rc ? rc : add_stored(snapshot, err);
    snapshot->state_bytes = (uint64_t)(pages * page_bytes);
    merge(snapshot);
    return rc;
}

static int survey_until_whole(struct snapshot *snapshot, struct err *err)
{
    int rc = survey(snapshot, err);
    for (int i = 1; rc == 0 && snapshot->missing > 0 && i < SURVEYS_MAX; i++) {
        rc = sql_exec(snapshot->state, "ROLLBACK", err);
        rc = rc ? rc : survey(snapshot, err);
    }
    return rc;
}

/* ---- opening ---- */

/* A command run by root must not leave files that the coordinator cannot open. */
static void give_to_owner_of(const char *directory, int fd)
{
    struct stat status;
    if (geteuid() == 0 && stat(directory, &status) == 0) {
        (void)!fchown(fd, status.st_uid, status.st_gid);
    }
}

static int open_database(const char *directory, const char *name, int application_id, sqlite3 **out,
                         struct err *err)
{
    char path[PATH_MAX];
    int64_t id = 0;
    int rc = path_join(path, directory, name, err);
    if (rc == 0 && access(path, F_OK)) {
        return err_set(err, ERR_NOT_FOUND, "'%s' has no %s", directory, name);
    }
    rc = rc ? rc : sql_open(path, out, err);
    rc = rc ? rc : sql_exec(*out, "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096", err);
    rc = rc ? rc : sql_integer(*out, "PRAGMA application_id", &id, err);
    if (rc == 0 && id != application_id) {
        return err_set(err, ERR_FORMAT, "'%s' is not a Paceline database (application id %lld)",
                       path, (long long)id);
    }
    return rc == 0 ? 0
           : rc == ERR_STATE
               ? err_set(err, ERR_STATE,
                         "'%s' is locked: its coordinator started on a full disk, or is of an "
                         "earlier version; free disk space and restart it, or stop it",
                         path)
               : rc;
}

static int open_parts(struct snapshot *snapshot, const char *directory, struct err *err)
{
    char path[PATH_MAX];
    int rc = path_join(path, directory, "state.db", err);
    if (rc == 0 && access(path, F_OK)) {
        return err_set(err, ERR_NOT_FOUND,
                       "'%s' has no state.db: give the coordinator's --state-dir", directory);
    }
    rc = rc ? rc : owner_take(directory, LOCK_NAME, "backup", &snapshot->lock, err);
    rc = rc ? rc : set_mark(snapshot->lock, err);
    if (rc) {
        return rc;
    }
    give_to_owner_of(directory, snapshot->lock);
    rc = open_database(directory, "state.db", STATE_APPLICATION_ID, &snapshot->state, err);
    if (rc == 0) {
        rc = open_database(directory, "checkpoints.db", BLOB_APPLICATION_ID, &snapshot->blobs, err);
        rc = rc == ERR_NOT_FOUND ? 0 : rc;
    }
    if (rc == 0 && snapshot->blobs) {
        rc = sql_prepare(snapshot->blobs, "SELECT data FROM chunks WHERE id = ?1", &snapshot->chunk,
                         err);
    }
    return rc ? rc : survey_until_whole(snapshot, err);
}

int snapshot_open(const char *directory, struct snapshot **out, struct err *err)
{
    struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (!snapshot) {
        return err_set(err, ERR_MEMORY, "out of memory");
    }
    snapshot->lock = -1;
    snapshot->piece = malloc(BLOB_CHUNK_BYTES);
    int rc = snapshot->piece ? open_parts(snapshot, directory, err)
                             : err_set(err, ERR_MEMORY, "out of memory");
    if (rc) {
        snapshot_close(&snapshot);
        return rc;
    }
    *out = snapshot;
    return 0;
}

void snapshot_close(struct snapshot **place)
{
    struct snapshot *snapshot = *place;
    if (!snapshot) {
        return;
    }
    sql_finalize(&snapshot->chunk);
    if (snapshot->blobs) {
        sql_close(&snapshot->blobs);
    }
    if (snapshot->state) {
        sql_rollback(snapshot->state);
        sql_close(&snapshot->state);
    }
    file_close(&snapshot->lock);
    free(snapshot->piece);
    free(snapshot->blob);
    free(snapshot);
    *place = NULL;
}

uint64_t snapshot_state_bytes(const struct snapshot *snapshot)
{
    return snapshot->state_bytes;
}

int64_t snapshot_schema(const struct snapshot *snapshot)
{
    return snapshot->schema;
}

const struct snapshot_blob *snapshot_blobs(const struct snapshot *snapshot, size_t *count)
{
    *count = snapshot->count;
    return snapshot->blob;
}

/* ---- reading ---- */

void snapshot_end_rows(struct snapshot *snapshot)
{
    sql_rollback(snapshot->state);
}

int snapshot_check_state(struct snapshot *snapshot, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    bool there = false;
    int rc = sql_prepare(snapshot->state, "PRAGMA integrity_check(1)", &statement, err);
    rc = rc ? rc : sql_step(snapshot->state, statement, &there, err);
    if (rc == 0 && there && strcmp(text_of(statement, 0), "ok") != 0) {
        rc = err_set(err, ERR_FORMAT, "state.db is damaged: %.300s", text_of(statement, 0));
    }
    sql_finalize(&statement);
    return rc;
}

int snapshot_copy_state(struct snapshot *snapshot, const char *path, struct err *err)
{
    sqlite3 *copy = NULL;
    if (unlink(path) && errno != ENOENT) {
        return err_set(err, ERR_IO, "remove '%s': %s", path, strerror(errno));
    }
    int rc = sql_open(path, &copy, err);
    rc = rc ? rc : sql_exec(copy, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", err);
    sqlite3_backup *backup =
        rc == 0 ? sqlite3_backup_init(copy, "main", snapshot->state, "main") : NULL;
    if (rc == 0 && !backup) {
        rc = sql_fail(copy, path, err);
    }
    if (backup) {
        int step = SQLITE_OK;
        while (step == SQLITE_OK) {
            step = sqlite3_backup_step(backup, COPY_PAGES);
        }
        const int finished = sqlite3_backup_finish(backup);
        if (step != SQLITE_DONE || finished != SQLITE_OK) {
            rc = sql_fail(copy, path, err);
        }
    }
    if (copy) {
        sql_close(&copy);
    }
    if (rc) {
        (void)unlink(path);
    }
    return rc;
}

/* Copy a chunk, so that the file is locked only briefly, because the coordinator's commits wait for
 * it. */
static int read_chunk(struct snapshot *snapshot, const struct snapshot_blob *blob, uint64_t index,
                      size_t size, struct err *err)
{
    sqlite3_stmt *chunk = snapshot->chunk;
    bool there = false;
    int rc =
        sqlite3_bind_int64(chunk, 1, (blob->id << BLOB_INDEX_BITS) + (int64_t)index) == SQLITE_OK
            ? sql_step(snapshot->blobs, chunk, &there, err)
            : sql_fail(snapshot->blobs, "bind", err);
    if (rc) {
        return rc;
    }
    const bool whole = there && (size_t)sqlite3_column_bytes(chunk, 0) == size;
    if (whole) {
        memcpy(snapshot->piece, sqlite3_column_blob(chunk, 0), size);
    }
    (void)sqlite3_reset(chunk);
    return whole ? 0
                 : err_set(err, ERR_FORMAT, "blob %s: chunk %llu is missing or has another size",
                           blob->sha256, (unsigned long long)index);
}

int snapshot_read(struct snapshot *snapshot, const struct snapshot_blob *blob,
                  snapshot_take_fn take, void *arg, struct err *err)
{
    AUTO(sha256_free) struct sha256 *hash = NULL;
    char found[HASH_TEXT_SIZE];
    if (blob->id == 0) {
        return err_set(err, ERR_FORMAT, "blob %s is missing", blob->sha256);
    }
    int rc = sha256_new(&hash, err);
    for (uint64_t at = 0; rc == 0 && at < blob->size; at += BLOB_CHUNK_BYTES) {
        const uint64_t left = blob->size - at;
        const size_t size = left < BLOB_CHUNK_BYTES ? (size_t)left : BLOB_CHUNK_BYTES;
        rc = read_chunk(snapshot, blob, at / BLOB_CHUNK_BYTES, size, err);
        if (rc == 0) {
            sha256_update(hash, snapshot->piece, size);
            rc = take ? take(arg, snapshot->piece, size, err) : 0;
        }
    }
    if (rc) {
        return rc;
    }
    sha256_finish_text(hash, found);
    return strcmp(found, blob->sha256) == 0
               ? 0
               : err_set(err, ERR_FORMAT, "blob %s is damaged: its content has sha256 %s",
                         blob->sha256, found);
}
