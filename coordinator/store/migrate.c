#include "coordinator/store/migrate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "coordinator/store/sql.h"

static int sync_file(const char *path, struct err *err)
{
    FD_AUTO int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd)) {
        int reason = errno;
        return err_set(err, err_from_errno(reason), "sync '%s': %s", path, strerror(reason));
    }
    return 0;
}

static int write_copy(sqlite3 *db, const char *path, struct err *err)
{
    if (unlink(path) && errno != ENOENT) {
        return err_set(err, ERR_IO, "remove '%s': %s", path, strerror(errno));
    }
    sqlite3_stmt *statement = NULL;
    FD_AUTO int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) { /* SQLite would make it readable by all; it takes one that is empty */
        return err_set(err, err_from_errno(errno), "open '%s': %s", path, strerror(errno));
    }
    int rc = sql_prepare(db, "VACUUM INTO ?1", &statement, err);
    if (rc == 0 && sqlite3_bind_text(statement, 1, path, -1, SQLITE_STATIC) != SQLITE_OK) {
        rc = sql_fail(db, "bind", err);
    }
    if (rc == 0) {
        rc = sql_run(db, statement, err);
    }
    sql_finalize(&statement);
    return rc ? rc : sync_file(path, err);
}

/* The copy appears under its name when it is complete. */
static int make_backup(sqlite3 *db, const char *path, struct err *err)
{
    char partial[PATH_MAX];
    const int length = snprintf(partial, sizeof(partial), "%s.partial", path);
    if (length < 0 || (size_t)length >= sizeof(partial)) {
        return err_set(err, ERR_INVALID, "path '%s' is too long", path);
    }
    int rc = write_copy(db, partial, err);
    if (rc == 0 && rename(partial, path)) {
        rc = err_set(err, ERR_IO, "rename to '%s': %s", path, strerror(errno));
    }
    rc = rc ? rc : file_sync_directory_of(path, err);
    if (rc) {
        (void)unlink(partial); /* its space is needed */
        return err_wrap(err, "back up to '%s'", path);
    }
    return 0;
}

static int number_of(const struct embedded *migration)
{
    return (int)strtol(migration->name, NULL, 10);
}

static int apply(sqlite3 *db, const struct embedded *migration, struct err *err)
{
    if (sqlite3_exec(db, migration->text, NULL, NULL, NULL) != SQLITE_OK) {
        return sql_fail(db, "statement", err) ? err_wrap(err, "migration %s", migration->name) : 0;
    }
    return 0;
}

/* One transaction: an interrupted attempt changes nothing, so the next attempt copies the same
 * file. */
static int apply_all(sqlite3 *db, const struct embedded *migrations, int first, int newest,
                     int application_id, struct err *err)
{
    char mark[96];
    (void)snprintf(mark, sizeof(mark),
                   "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", application_id,
                   newest);
    int rc = sql_exec(db, "BEGIN IMMEDIATE", err);
    for (int i = first; rc == 0 && i < newest; i++) {
        rc = apply(db, &migrations[i], err);
    }
    rc = rc ? rc : sql_exec(db, mark, err);
    if (rc) {
        sql_rollback(db);
    }
    return rc;
}

static int check_owner(sqlite3 *db, int64_t version, int application_id, struct err *err)
{
    int64_t objects = 0, id = 0;
    int rc = sql_integer(db, "SELECT count(*) FROM sqlite_schema", &objects, err);
    if (rc == 0) {
        rc = sql_integer(db, "PRAGMA application_id", &id, err);
    }
    if (rc) {
        return rc;
    }
    bool fresh = version == 0 && objects == 0 && id == 0;
    if (!fresh && id != application_id) {
        return err_set(err, ERR_FORMAT, "not a Paceline database (application id %lld)",
                       (long long)id);
    }
    return 0;
}

int migrate_newest(const struct embedded *migrations)
{
    int newest = 0;
    for (const struct embedded *each = migrations; each->name; each++) {
        ASSERT(number_of(each) == newest + 1);
        newest++;
    }
    return newest;
}

int migrate_run(sqlite3 *db, const struct embedded *migrations, int application_id,
                const char *backup, struct err *err)
{
    const int newest = migrate_newest(migrations);
    int64_t version = 0;
    int rc = sql_integer(db, "PRAGMA user_version", &version, err);
    if (rc == 0) {
        rc = check_owner(db, version, application_id, err);
    }
    if (rc) {
        return rc;
    }
    if (version > newest) {
        return err_set(err, ERR_UNSUPPORTED,
                       "schema %lld was made by a newer version; this version supports up to %d: "
                       "start that version, or restore a backup from before the upgrade",
                       (long long)version, newest);
    }
    if (version == newest) {
        return 0;
    }
    rc = version > 0 && backup ? make_backup(db, backup, err) : 0;
    return rc ? rc : apply_all(db, migrations, (int)version, newest, application_id, err);
}
