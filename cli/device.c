#include "cli/device.h"

#include "schema/id.h"

int device_verb(struct api *api, const char *id, const char *verb, FILE *out, struct err *err)
{
    char path[API_PATH_SIZE];
    if (!id_valid(id, "dev_")) {
        return err_set(err, ERR_INVALID,
                       "'%s' is not the id of a device; expected dev_ and 26 characters", id);
    }
    (void)snprintf(path, sizeof(path), "/v1/devices/%s/%s", id, verb);
    int rc = api_call(api, "POST", path, NULL, 0, 0, err);
    return rc ? rc : api_print(api, out, err);
}
