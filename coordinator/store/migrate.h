/* migrate.h: brings a database to the schema of this build. Migrations are the embedded files of
 * sql/. They go forward only, all in one transaction together with their number (PRAGMA
 * user_version). Private to coordinator/store. */
#ifndef COORDINATOR_STORE_MIGRATE_H
#define COORDINATOR_STORE_MIGRATE_H

#include "base/embedded.h"
#include "base/err.h"

struct sqlite3;

/* The PRAGMA application_id of each database. */
#define STATE_APPLICATION_ID 0x504c7374 /* "PLst" */
#define BLOB_APPLICATION_ID 0x504c6370  /* "PLcp" */

/* In the order of the numbers in their names, from 1 without gaps: "0002_incidents". */
extern const struct embedded state_migrations[];
extern const struct embedded checkpoint_migrations[];

/* Return the number of the last migration. */
int migrate_newest(const struct embedded *migrations);
/* Apply the missing migrations.
 *
 *     application_id  identifies our files: a database of another program is rejected
 *     backup          path of the copy made before an older schema is changed, visible only when
 *                     complete and only to its owner; NULL: none (blobs are too large to copy)
 *
 * ERR_UNSUPPORTED: the file was made by a newer build. ERR_FORMAT: not our database. A migration
 * that fails undoes those before it. */
NODISCARD int migrate_run(struct sqlite3 *db, const struct embedded *migrations, int application_id,
                          const char *backup, struct err *err);

#endif
