#include "coordinator/store/migrate.h"

#include <errno.h>
#include <fcntl.h>
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

/* A copy that an interrupted attempt left is replaced: it may be torn. */
static int make_backup(sqlite3 *db, const char *path, struct err *err)
{
    if (unlink(path) && errno != ENOENT) {
        return err_set(err, ERR_IO, "remove '%s': %s", path, strerror(errno));
    }
    sqlite3_stmt *statement = NULL;
    int rc = sql_prepare(db, "VACUUM INTO ?1", &statement, err);
    if (rc == 0 && sqlite3_bind_text(statement, 1, path, -1, SQLITE_STATIC) != SQLITE_OK) {
        rc = sql_fail(db, "bind", err);
    }
    if (rc == 0) {
        rc = sql_run(db, statement, err);
    }
    sql_finalize(&statement);
    if (rc == 0) {
        rc = sync_file(path, err);
    }
    return rc == 0 ? 0 : err_wrap(err, "back up to '%s'", path);
}

static int number_of(const struct embedded *migration)
{
    return (int)strtol(migration->name, NULL, 10);
}

static int apply(sqlite3 *db, const struct embedded *migration, int application_id, struct err *err)
{
    char mark[96];
    (void)snprintf(mark, sizeof(mark),
                   "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", application_id,
                   number_of(migration));
    int rc = sql_exec(db, "BEGIN IMMEDIATE", err);
    if (rc == 0 && sqlite3_exec(db, migration->text, NULL, NULL, NULL) != SQLITE_OK) {
        rc = sql_fail(db, "statement", err);
    }
    if (rc == 0) {
        rc = sql_exec(db, mark, err);
    }
    if (rc) {
        sql_rollback(db);
        return err_wrap(err, "migration %s", migration->name);
    }
    return 0;
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
    if (version > 0 && version < newest && backup) {
        rc = make_backup(db, backup, err);
    }
    for (int64_t next = version; rc == 0 && next < newest; next++) {
        rc = apply(db, &migrations[next], application_id, err);
    }
    return rc;
}
