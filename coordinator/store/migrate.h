/* migrate.h: bring a database to the schema of this build. Migrations are the files of sql/,
 * embedded; they go forward only, all in one transaction with their number (PRAGMA user_version).
 * Private to coordinator/store. */
#ifndef COORDINATOR_STORE_MIGRATE_H
#define COORDINATOR_STORE_MIGRATE_H

#include "base/embedded.h"
#include "base/err.h"

struct sqlite3;

/* PRAGMA application_id of each. */
#define STATE_APPLICATION_ID 0x504c7374 /* "PLst" */
#define BLOB_APPLICATION_ID 0x504c6370  /* "PLcp" */

/* By the number that their names begin with, from 1 without gaps: "0002_incidents". */
extern const struct embedded state_migrations[];
extern const struct embedded checkpoint_migrations[];

/* The number of the last one. */
int migrate_newest(const struct embedded *migrations);
/* Apply the missing migrations.
 * application_id   marks whose file it is: a database of another program is refused
 * backup           path of the copy made before an older schema is changed; NULL: none (blobs are
 * too large to copy). It appears when it is whole, readable by its owner alone.
 * ERR_UNSUPPORTED: the file was made by a newer build. ERR_FORMAT: not our database. A migration
 * that fails undoes those before it. */
NODISCARD int migrate_run(struct sqlite3 *db, const struct embedded *migrations, int application_id,
                          const char *backup, struct err *err);

#endif
