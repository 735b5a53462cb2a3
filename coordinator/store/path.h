/* path.h: paths of the store's files. Private to coordinator/store. Any thread. */
#ifndef COORDINATOR_STORE_PATH_H
#define COORDINATOR_STORE_PATH_H

#include <limits.h>

#include "base/err.h"

/* Write DIRECTORY/NAME. ERR_INVALID: too long. */
NODISCARD int path_join(char out[PATH_MAX], const char *directory, const char *name,
                        struct err *err);

#endif
