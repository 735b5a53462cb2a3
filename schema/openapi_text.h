/* openapi_text.h: what embed_openapi.py makes of openapi.yaml. For openapi.c only. */
#ifndef SCHEMA_OPENAPI_TEXT_H
#define SCHEMA_OPENAPI_TEXT_H

#include <stddef.h>

extern const char openapi_text[]; /* NUL-terminated */
extern const size_t openapi_text_size;

#endif
