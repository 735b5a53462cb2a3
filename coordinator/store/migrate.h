/* migrate.h: bring a database to the schema of this build. Migrations are the files of sql/,
 * embedded; they go forward only, each in one transaction with its number (PRAGMA user_version).
 * Private to coordinator/store. */
#ifndef COORDINATOR_STORE_MIGRATE_H
#define COORDINATOR_STORE_MIGRATE_H

#include "base/err.h"

struct sqlite3;

struct migration {
    int number; /* 1, 2, 3 ... */
    const char *name;
    const char *text; /* SQL; NULL ends a list */
};

extern const struct migration state_migrations[];
extern const struct migration checkpoint_migrations[];

/* Apply the missing migrations.
 * application_id   marks whose file it is: a database of another program is refused
 * backup           path of the copy made before an older schema is changed; NULL: none (blobs are
 * too large to copy) ERR_UNSUPPORTED: the file was made by a newer build. ERR_FORMAT: not our
 * database. Nothing is changed by a migration that fails. */
NODISCARD int migrate_run(struct sqlite3 *db, const struct migration *migrations,
                          int application_id, const char *backup, struct err *err);

#endif
