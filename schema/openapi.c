#include "schema/openapi.h"

#include "base/embedded.h"

extern const struct embedded openapi_files[];

const char *openapi_json(size_t *size)
{
    *size = openapi_files[0].size;
    return openapi_files[0].text;
}
