/* backup.h: the commands `paceline-coordinator backup`, `restore` and `check`. For main. */
#ifndef COORDINATOR_BACKUP_H
#define COORDINATOR_BACKUP_H

#include <stdbool.h>

#include "base/err.h"

/* argv[0] is the command. *misused: the command line is wrong. Beside the errors of
 * store/backup.h: ERR_FORMAT after a backup that leaves damaged blobs out. */
NODISCARD int backup_run(int argc, char **argv, bool *misused, struct err *err);
NODISCARD int backup_run_restore(int argc, char **argv, bool *misused, struct err *err);
NODISCARD int backup_run_check(int argc, char **argv, bool *misused, struct err *err);

#endif
