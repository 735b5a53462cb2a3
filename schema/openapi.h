/* openapi.h: the API's contract (openapi.yaml) as the JSON text that GET /openapi.json answers.
 * Library schema_openapi; any thread. */
#ifndef SCHEMA_OPENAPI_H
#define SCHEMA_OPENAPI_H

#include <stddef.h>

/* Borrowed static text of *size bytes. */
const char *openapi_json(size_t *size);

#endif
