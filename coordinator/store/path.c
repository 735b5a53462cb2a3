#include "coordinator/store/path.h"

#include <stddef.h>
#include <stdio.h>

int path_join(char out[PATH_MAX], const char *directory, const char *name, struct err *err)
{
    int length = snprintf(out, PATH_MAX, "%s/%s", directory, name);
    if (length < 0 || (size_t)length >= PATH_MAX) {
        return err_set(err, ERR_INVALID, "path '%s/%s' is too long", directory, name);
    }
    return 0;
}
