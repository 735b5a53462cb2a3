#include "schema/openapi.h"

#include "schema/openapi_text.h"

const char *openapi_json(size_t *size)
{
    *size = openapi_text_size;
    return openapi_text;
}
